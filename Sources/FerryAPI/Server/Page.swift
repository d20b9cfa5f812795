internal import FerryCore
internal import HTTPServer

/// A page of a list, newest first. The store is asked for one record more than is shown, which tells whether
/// there is a next page.
struct Page<Record> {
    let shown: ArraySlice<Record>
    /// Nil: this is the last page.
    let nextCursor: String?
    /// Nil: only the whole page has one.
    private let cursorAfter: ((Record) -> String)?

    init<Kind: IdentifierKind>(
        _ records: [Record], limit: Int, id: @escaping (Record) -> Identifier<Kind>
    ) {
        shown = records.prefix(limit)
        nextCursor = records.count > limit ? shown.last.map { cursor(after: id($0)) } : nil
        cursorAfter = { cursor(after: id($0)) }
    }

    /// A page that a bounded scan may have ended before it was full. `next_cursor` is then where it stopped.
    init<Kind: IdentifierKind>(
        _ page: ListPage<Record, Kind>, limit: Int, id: @escaping (Record) -> Identifier<Kind>
    ) where Record: Sendable {
        let records = page.records
        shown = records.prefix(limit)
        let end = records.count > limit ? shown.last.map(id) : page.stoppedAt
        nextCursor = end.map { cursor(after: $0) }
        cursorAfter = { cursor(after: id($0)) }
    }

    /// A page whose cursor is no identifier's.
    init(_ shown: ArraySlice<Record>, nextCursor: String?) {
        self.shown = shown
        self.nextCursor = nextCursor
        cursorAfter = nil
    }

    /// Ends early when that is long enough.
    func send(_ call: RequestContext, reservingCapacity: Int, _ write: (Record, inout JSONWriter) -> Void) {
        sendPage(call, reservingCapacity: reservingCapacity) { writer in
            for (index, record) in zip(shown.indices, shown) {
                write(record, &writer)
                guard writer.bytes.count > Limits.listByteCountMax, index < shown.endIndex - 1 else {
                    continue
                }
                if let cursorAfter { return cursorAfter(record) }
            }
            return nextCursor
        }
    }
}

/// `Link` repeats the query with the next cursor (RFC 8288).
func sendPage(
    _ call: RequestContext, nextCursor: String?, reservingCapacity: Int, _ write: (inout JSONWriter) -> Void
) {
    sendPage(call, reservingCapacity: reservingCapacity) { writer in
        write(&writer)
        return nextCursor
    }
}

/// `write` says where the next page begins.
private func sendPage(_ call: RequestContext, reservingCapacity: Int, _ write: (inout JSONWriter) -> String?)
{
    var writer = JSONWriter(reservingCapacity: reservingCapacity + 64)
    writer.beginObject()
    writer.name("data")
    writer.beginArray()
    let nextCursor = write(&writer)
    writer.endArray()
    writer.memberOrNull("next_cursor", nextCursor)
    writer.endObject()
    let link = nextCursor.map { cursor in
        let query = (call.query.filter { $0.name != "cursor" } + [("cursor", cursor)])
            .map { "\(percentEncoded($0.name))=\(percentEncoded($0.value))" }.joined(separator: "&")
        return "<\(call.request.head.path)?\(query)>; rel=\"next\""
    }
    call.send(200, json: writer.bytes, link.map { [("Link", $0)] } ?? [])
}

extension RequestContext {
    /// `limit` and `cursor` of a list that is asked for nothing else.
    func page<Position>(
        _ read: (String) throws(Problem) -> Position
    ) throws(Problem) -> (limit: Int, cursor: Position?) {
        var page: (limit: Int, cursor: Position?) = (Limits.listLimitDefault, nil)
        for (name, value) in query {
            if name == "limit" { page.limit = try pageLimit(value) } else { page.cursor = try read(value) }
        }
        return page
    }
}

/// The last identifier of a page, without its prefix; opaque to clients.
private func cursor<Kind>(after id: Identifier<Kind>) -> String {
    String(id.description.dropFirst(Kind.prefix.count))
}

/// The identifier that a cursor stands for.
func position<Kind>(_ cursor: String) throws(Problem) -> Identifier<Kind> {
    guard let id = Identifier<Kind>(Kind.prefix + cursor) else { throw Problem.unknownCursor }
    return id
}

/// Cursors of lists that are ordered by name: they say of which list.
enum NameCursor: String {
    case session, tenant

    /// Behind this name.
    func text(_ name: String) -> String { "\(rawValue).\(name)" }

    /// The name behind which a page begins.
    func name(_ cursor: String, where isValid: (String) -> Bool) throws(Problem) -> String {
        let name = String(cursor.dropFirst(rawValue.count + 1))
        guard cursor.hasPrefix("\(rawValue)."), isValid(name) else { throw Problem.unknownCursor }
        return name
    }
}

extension Problem {
    static var unknownCursor: Problem {
        Problem(.invalidCursor, "No list gave this cursor; begin again without it.")
    }
}

func pageLimit(_ value: String) throws(Problem) -> Int {
    guard let limit = Int(value), (1...Limits.listLimitMax).contains(limit) else {
        throw Problem(.invalidParameter, "limit must be from 1 to \(Limits.listLimitMax).")
    }
    return limit
}
