internal import FerryCore
internal import HTTPServer

extension API {
    /// `GET /v1/jobs`
    func listJobs(_ call: Call) {
        call.answering { () throws(Problem) in
            let items = try call.query(
                ["session", "state", "kind", "host", "created_after", "limit", "cursor"], prefix: "metadata.")
            let query = try jobQuery(items, tenant: call.principal.tenant)
            var page = query
            // One more than asked tells whether there is a next page.
            page.limit += 1
            ports.reader.jobs(page) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let records): sendPage(records, query, items, call)
                }
            }
        }
    }

    private func sendPage(
        _ records: [JobRecord], _ query: JobQuery, _ items: [(name: String, value: String)], _ call: Call
    ) {
        let shown = records.prefix(query.limit)
        let next = records.count > query.limit ? shown.last.map { cursor(after: $0.id, query) } : nil
        var writer = JSONWriter(reservingCapacity: shown.count * 2_560 + 64)
        writer.beginObject()
        writer.name("data")
        writer.beginArray()
        for record in shown {
            record.write(into: &writer, progress: record.state == .running ? ports.progress(record.id) : nil)
        }
        writer.endArray()
        writer.memberOrNull("next_cursor", next)
        writer.endObject()
        call.send(200, json: writer.bytes, next.map { [("Link", link(items, cursor: $0))] } ?? [])
    }

    private func link(_ items: [(name: String, value: String)], cursor: String) -> String {
        let query = (items.filter { $0.name != "cursor" } + [("cursor", cursor)])
            .map { "\(percentEncoded($0.name))=\(percentEncoded($0.value))" }.joined(separator: "&")
        return "</v1/jobs?\(query)>; rel=\"next\""
    }
}

/// Reads filters, limit and cursor; what is wrong is a 400.
func jobQuery(_ items: [(name: String, value: String)], tenant: String) throws(Problem) -> JobQuery {
    var query = JobQuery(tenant: tenant)
    var cursor: String?
    for (name, value) in items {
        switch name {
        case "session": query.session = try nonEmpty(name, value, byteCountMax: Limits.nameByteCountMax)
        case "state": query.state = try choice(name, value)
        case "kind": query.kind = try choice(name, value)
        case "host": query.host = try nonEmpty(name, value, byteCountMax: 255).lowercased()
        case "created_after":
            guard let instant = Timestamp(rfc3339: value) else {
                throw Problem(.invalidParameter, "created_after must be an RFC 3339 time.")
            }
            query.createdAfter = instant
        case "limit":
            guard let limit = Int(value), (1...Limits.listLimitMax).contains(limit) else {
                throw Problem(.invalidParameter, "limit must be from 1 to \(Limits.listLimitMax).")
            }
            query.limit = limit
        case "cursor": cursor = value
        default:
            query.metadata.append(JobSpec.Pair(String(name.dropFirst("metadata.".count)), value))
        }
    }
    if let cursor { query.before = try position(cursor, query) }
    return query
}

private func nonEmpty(_ name: String, _ value: String, byteCountMax: Int) throws(Problem) -> String {
    guard (1...byteCountMax).contains(value.utf8.count) else {
        throw Problem(.invalidParameter, "\(name) must have 1 to \(byteCountMax) bytes.")
    }
    return value
}

private func choice<Choice: RawRepresentable & CaseIterable>(
    _ name: String, _ value: String
) throws(Problem) -> Choice where Choice.RawValue == String {
    guard let choice = Choice(rawValue: value) else {
        let all = Choice.allCases.map(\.rawValue).joined(separator: ", ")
        throw Problem(.invalidParameter, "\(name) must be one of: \(all).")
    }
    return choice
}

/// Opaque to clients: the last identifier of a page and a check on the filters that it belongs to.
func cursor(after id: JobID, _ query: JobQuery) -> String {
    "\(id.description.dropFirst(JobKindTag.prefix.count))\(filterCheck(query))"
}

private func position(_ cursor: String, _ query: JobQuery) throws(Problem) -> JobID {
    guard let id = JobID(JobKindTag.prefix + cursor.prefix(26)), cursor.dropFirst(26) == filterCheck(query)
    else {
        throw Problem(
            .invalidCursor, "This cursor was given by another list, or by none; begin again without it.")
    }
    return id
}

/// FNV-1a over the filters: enough to notice that a cursor came from another list.
private func filterCheck(_ query: JobQuery) -> String {
    var parts = [
        query.session ?? "", query.state?.rawValue ?? "", query.kind?.rawValue ?? "", query.host ?? "",
        query.createdAfter?.description ?? "",
    ]
    for pair in query.metadata.sorted(by: { $0.name < $1.name }) { parts += [pair.name, pair.value] }
    var hash: UInt32 = 0x811C_9DC5
    for byte in parts.joined(separator: "\u{0}").utf8 { hash = (hash ^ UInt32(byte)) &* 0x0100_0193 }
    return hexEncoded([24, 16, 8, 0].map { UInt8(truncatingIfNeeded: hash >> UInt32($0)) })
}

/// Everything but the unreserved characters of RFC 3986 §2.3 as `%XX`.
func percentEncoded(_ text: String, keeping extra: String = "") -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes: [UInt8] = []
    for byte in text.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            bytes.append(byte)
        case _ where extra.utf8.contains(byte): bytes.append(byte)
        default:
            bytes.append(contentsOf: [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]])
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}
