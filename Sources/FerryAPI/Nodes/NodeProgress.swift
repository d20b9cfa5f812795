package import FerryCore
internal import HTTPServer

/// The request of one node for the progress of jobs that run on another: `GET /v1/node/progress`, with the
/// parameter `jobs` (identifiers, separated by commas) or for all jobs. Clients cannot send it.
package enum NodeProgress {
    static let path = "/v1/node/progress"

    /// Returns the request target for these jobs; `nil`: for all that run.
    package static func target(_ jobs: Set<JobID>?) -> String {
        guard let jobs else { return path }
        return "\(path)?jobs=" + jobs.map(\.description).joined(separator: ",")
    }

    /// Returns the jobs that a request asks for; `nil`: all of them.
    static func jobs(_ head: RequestHead) throws(Problem) -> Set<JobID>? {
        guard let query = head.query else { return nil }
        let texts = query.dropFirst("jobs=".count).split(separator: ",")
        let jobs = Set(texts.compactMap { JobID(String($0)) })
        guard query.hasPrefix("jobs="), texts.count <= Limits.nodeProgressJobCountMax,
            jobs.count == texts.count
        else {
            throw Problem(
                .invalidParameter,
                "jobs must have up to \(Limits.nodeProgressJobCountMax) different identifiers of jobs.")
        }
        return jobs
    }

    /// Writes the body of the response.
    static func write(_ transfers: [RunningTransfer]) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 64 + transfers.count * 256)
        writer.beginObject()
        writer.name("data")
        writer.beginArray()
        for transfer in transfers {
            let progress = transfer.progress
            writer.beginObject()
            writer.member("job", transfer.job)
            writer.member("tenant", transfer.tenant)
            writer.member("session", transfer.session)
            writer.member("bytes_received", progress.bytesReceived)
            writer.memberOrNull("bytes_expected_to_receive", progress.bytesExpectedToReceive)
            writer.member("bytes_sent", progress.bytesSent)
            writer.memberOrNull("bytes_expected_to_send", progress.bytesExpectedToSend)
            writer.member("bytes_per_second", progress.bytesPerSecond)
            writer.memberOrNull("resumed_at_offset", progress.resumedAtOffset)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    /// Reads the body of a response; `nil` if it is no such body.
    package static func read(_ body: [UInt8]) -> [RunningTransfer]? {
        // Written by another node; what cannot be read is no response.
        guard let entries = (try? JSON.parse(body))?["data"]?.array else { return nil }
        var transfers: [RunningTransfer] = []
        transfers.reserveCapacity(entries.count)
        for entry in entries {
            guard let job = entry["job"]?.string.flatMap({ JobID($0) }), let tenant = entry["tenant"]?.string,
                let session = entry["session"]?.string, let received = entry["bytes_received"]?.integer,
                let sent = entry["bytes_sent"]?.integer, let rate = entry["bytes_per_second"]?.double
            else { return nil }
            let progress = TransferProgress(
                bytesReceived: received,
                bytesExpectedToReceive: entry["bytes_expected_to_receive"]?.integer, bytesSent: sent,
                bytesExpectedToSend: entry["bytes_expected_to_send"]?.integer, bytesPerSecond: rate,
                resumedAtOffset: entry["resumed_at_offset"]?.integer)
            transfers.append(
                RunningTransfer(job: job, tenant: tenant, session: session, progress: progress))
        }
        return transfers
    }
}
