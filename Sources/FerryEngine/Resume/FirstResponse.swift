import FerryCore

/// The response whose bytes begin a file.
struct FirstResponse {
    let head: ResponseHead
    /// Bytes of the whole file, or `nil` if that is unknown.
    let total: Int64?
    let attempt: Attempt
    /// The request that was answered.
    let hop: Hop

    /// Record with which a later request continues the bytes; `nil` if none can.
    var record: PartialRecord? { PartialRecord(head, total: total, of: attempt.spec, from: hop) }
}

extension PartialRecord {
    /// Whether a later attempt can continue a job's download at all: the request must leave `Range` and
    /// `If-Range` to Ferry, and ask for no content coding.
    static func isPossible(_ spec: JobSpec) -> Bool {
        spec.kind == .download && spec.request.method == "GET" && spec.request.acceptEncoding == .identity
            && !spec.request.headers.contains { header in
                equalIgnoringCase(header.name, "range") || equalIgnoringCase(header.name, "if-range")
                    || equalIgnoringCase(header.name, "accept-encoding")
                        && !equalIgnoringCase(header.value, "identity")
            }
    }

    /// The record of a response whose bytes begin the file; `nil` if they could not be continued. `total`:
    /// bytes of the whole file, or `nil` if that is unknown.
    init?(_ head: ResponseHead, total: Int64?, of spec: JobSpec, from hop: Hop) {
        guard Self.isPossible(spec), hop.method == "GET", [200, 206].contains(head.status),
            head.contentCodings.isEmpty || total != nil,
            head.first("accept-ranges").map({ equalIgnoringCase($0, "none") }) != true
        else { return nil }
        let validator = Validator(head)
        guard
            validator != nil || spec.integrity.provesFile
                || spec.retry.resumesWithoutValidator && total != nil
        else { return nil }
        self.init(
            identity: Self.identity(of: spec.request), source: Self.source(of: hop.url),
            validator: validator, total: total)
        codings = head.contentCodings
        describe(head.mimeType, head.announcedDigests(of: .whole))
    }

    /// Properties of the file according to the record.
    var known: KnownFile {
        KnownFile(validator: validator, total: total, source: source, codings: codings, mimeType: mimeType)
    }

    /// Returns the first byte to request if there are `count` bytes from byte 0 on. The last one is requested
    /// again if it may be the file's last: a response without bytes could not tell whether the server's file
    /// is still the same.
    func offset(after count: Int64) -> Int64 { min(count, (total ?? count) - 1) }
}
