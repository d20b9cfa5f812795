import FerryCore
import Postgres

extension JobSpec {
    /// The metadata as a JSON object, for lists by metadata; `nil` if there is none.
    var metadataJSON: [UInt8]? {
        guard !metadata.isEmpty else { return nil }
        var writer = JSONWriter(reservingCapacity: 64 * metadata.count)
        writer.beginObject()
        for pair in metadata { writer.member(pair.name, pair.value) }
        writer.endObject()
        return writer.bytes
    }
}

extension Parameters {
    /// Appends the columns `is_repeatable` and `awaits_host` of a job.
    mutating func appendClaimFlags(of spec: JobSpec) {
        append(bool: spec.isRequestRepeatable)
        append(bool: spec.awaitsHost)
    }
}
