internal import FerryCore
internal import HTTPServer

/// A page of a list. The store is asked for one record more than the page shows: that record
/// tells whether there is a next page.
struct Page<Record> {
    let shown: ArraySlice<Record>
    /// `nil` on the last page.
    let nextCursor: String?
    /// Returns the cursor after a record; `nil` if only the whole page has a cursor.
    private let cursorAfter: ((Record) -> String)?

    init<Kind: IdentifierKind>(
        _ records: [Record], limit: Int, id: @escaping (Record) -> Identifier<Kind>
    ) {
        shown = records.prefix(limit)
        nextCursor = records.count > limit ? shown.last.map { cursor(after: id($0)) } : nil
        cursorAfter = { cursor(after: id($0)) }
    }

    /// Makes a page of a scan that may have stopped before the page was full. `next_cursor` is then the place
    /// where the scan stopped.
    init<Kind: IdentifierKind>(
        _ page: ListPage<Record, Kind>, limit: Int, id: @escaping (Record) -> Identifier<Kind>
    ) where Record: Sendable {
        let records = page.records
        shown = records.prefix(limit)
        let end = records.count > limit ? shown.last.map(id) : page.stoppedAt
        nextCursor = end.map { cursor(after: $0) }
        cursorAfter = { cursor(after: id($0)) }
    }

    /// Makes a page of a list whose cursors are not identifiers. `cursor` returns the one after a record.
    init(_ records: [Record], limit: Int, cursor: (Record) -> String) {
        shown = records.prefix(limit)
        nextCursor = records.count > limit ? shown.last.map(cursor) : nil
        cursorAfter = nil
    }

    /// Sends the page. If each record has a cursor, a page above `Limits.listByteCountMax` ends early.
    func send(_ request: RequestContext, reservingCapacity: Int, _ write: (Record, inout JSONWriter) -> Void)
    {
        sendPage(request, reservingCapacity: reservingCapacity) { writer in
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

extension Page where Record: ShownObject {
    /// Sends the page of objects as the reader may see them.
    func send(_ request: RequestContext, reservingCapacity: Int) {
        let isRedacted = request.disclosure.isRedacted
        send(request, reservingCapacity: reservingCapacity) { $0.show(into: &$1, isRedacted: isRedacted) }
    }
}

/// Sends a page. `write` returns the cursor of the next one. The field `Link` (RFC 8288) repeats the query
/// with that cursor.
private func sendPage(
    _ request: RequestContext, reservingCapacity: Int, _ write: (inout JSONWriter) -> String?
) {
    var writer = JSONWriter(reservingCapacity: reservingCapacity + 64)
    writer.beginObject()
    writer.name("data")
    writer.beginArray()
    let nextCursor = write(&writer)
    writer.endArray()
    writer.memberOrNull("next_cursor", nextCursor)
    writer.endObject()
    let link = nextCursor.map { cursor in
        let query = (request.query.filter { $0.name != "cursor" } + [("cursor", cursor)])
            .map { "\(percentEncoded($0.name))=\(percentEncoded($0.value))" }.joined(separator: "&")
        return "<\(request.head.path)?\(query)>; rel=\"next\""
    }
    request.send(200, json: writer.bytes, link.map { [("Link", $0)] } ?? [])
}

extension RequestContext {
    /// Reads `limit` and `cursor` of a list whose operation has no other parameters.
    func page<Position>(
        _ read: (String) throws(Problem) -> Position
    ) throws(Problem) -> (limit: Int, cursor: Position?) {
        var page: (limit: Int, cursor: Position?) = (Limits.listLimitDefault, nil)
        for (name, value) in query {
            if name == "limit" { page.limit = try pageLimit(value) } else { page.cursor = try read(value) }
        }
        return page
    }

    /// Like `page(_:)`, for a list whose cursors are identifiers.
    func page<Kind>(
        of kind: Identifier<Kind>.Type
    ) throws(Problem) -> (limit: Int, cursor: Identifier<Kind>?) {
        try page { cursor throws(Problem) -> Identifier<Kind> in try position(cursor) }
    }
}

/// Returns an identifier without its prefix. Clients must treat it as opaque.
private func cursor<Kind>(after id: Identifier<Kind>) -> String {
    String(id.description.dropFirst(Kind.prefix.count))
}

/// Returns the identifier of a cursor.
func position<Kind>(_ cursor: String) throws(Problem) -> Identifier<Kind> {
    guard let id = Identifier<Kind>(Kind.prefix + cursor) else { throw Problem.unknownCursor }
    return id
}

/// Cursors of the lists that are ordered by name. A cursor names its list.
enum NameCursor: String {
    case session, credential, tenant

    /// Returns the cursor after a name.
    func text(_ name: String) -> String { "\(rawValue).\(name)" }

    /// Returns the name of a cursor.
    func name(_ cursor: String, where isValid: (String) -> Bool) throws(Problem) -> String {
        let name = String(cursor.dropFirst(rawValue.count + 1))
        guard cursor.hasPrefix("\(rawValue)."), isValid(name) else { throw Problem.unknownCursor }
        return name
    }
}

extension Problem {
    static var unknownCursor: Problem {
        Problem(.invalidCursor, "The cursor is not from this list; start again without a cursor.")
    }
}

func pageLimit(_ value: String) throws(Problem) -> Int {
    guard let limit = Int(value), (1...Limits.listLimitMax).contains(limit) else {
        throw Problem(.invalidParameter, "limit must be a number from 1 to \(Limits.listLimitMax).")
    }
    return limit
}
