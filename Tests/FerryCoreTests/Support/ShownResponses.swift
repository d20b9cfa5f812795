import FerryCore
import Testing

/// Returns the `response` of a failed job with this response, as a reader sees it.
func shownResponse(
    _ response: Stored<TransferResponse>, for disclosure: Disclosure = .redacted
) throws -> JSON {
    let spec = try decode(#"{"kind":"data","request":{"url":"https://a.example/f"}}"#).spec
    var record = JobRecord(
        id: JobID(high: 1, low: 2), tenant: "default", state: .failed, waitingFor: nil, revision: 3,
        attempt: 1, failedAttemptCount: 0, node: nil, createdAt: Timestamp(microseconds: 0), startedAt: nil,
        retryOf: nil, storedSpec: StoredSpec(spec.encodeStored()))
    record.storedResponse = response
    var writer = JSONWriter()
    record.write(into: &writer, progress: nil, for: disclosure)
    return try #require(try JSON.parse(writer.bytes)["response"])
}
