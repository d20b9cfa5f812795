import FerryCore

/// All pages of a list, or one page.
struct Listing {
    private static let pageEntryCountMax = 500

    private(set) var entries: [JSON] = []
    /// Cursor of the next page; `nil` if all entries were read.
    private(set) var cursor: String?

    /// Reads all pages, or one of `limit` entries.
    init(_ path: String, of service: ServiceClient, limit: Int? = nil) throws(ClientFailure) {
        repeat {
            let place = cursor.map { "&cursor=\(percentEncoded($0))" } ?? ""
            let separator = path.contains("?") ? "&" : "?"
            let page = try service.send(
                "GET", "\(path)\(separator)limit=\(limit ?? Self.pageEntryCountMax)\(place)"
            ).json
            entries += page["data"]?.array ?? []
            cursor = page["next_cursor"]?.string
        } while cursor != nil && limit == nil
    }

    /// The entries as one JSON document.
    var json: [UInt8] {
        var writer = JSONWriter()
        writer.value(
            .object([
                JSON.Member("data", .array(entries)),
                JSON.Member("next_cursor", cursor.map(JSON.string) ?? .null),
            ]))
        return writer.bytes
    }
}
