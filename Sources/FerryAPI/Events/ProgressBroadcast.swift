internal import FerryCore

/// Sends progress to the streams of all jobs. The text is written once for all streams of the same tenant and
/// session. `Limits` bounds its length each time, however many streams are open and jobs run; if it does not
/// suffice for all jobs, they take turns. One thread.
struct ProgressBroadcast {
    /// The streams of a tenant, or of one of its sessions.
    private struct Audience: Hashable {
        let tenant: String
        let session: String?
    }

    /// Progress that was sent to an audience.
    private struct Sent {
        var progress: [JobID: TransferProgress] = [:]
        /// The next turn begins after this job.
        var last = JobID(high: 0, low: 0)
        /// Number of the newest stream.
        var stream: UInt64 = 0
    }

    private var sent: [Audience: Sent] = [:]

    /// Sends new progress to these streams, none of which is for a single job.
    mutating func send(_ streams: [EventStream], _ running: [RunningTransfer]) {
        var audiences: [Audience: [EventStream]] = [:]
        for stream in streams {
            let query = stream.subject.query
            audiences[Audience(tenant: query.tenant, session: query.session), default: []].append(stream)
        }
        sent = sent.filter { audiences[$0.key] != nil }
        var transfers: [Audience: [RunningTransfer]] = [:]
        for transfer in running {
            for session in [nil, transfer.session] {
                let audience = Audience(tenant: transfer.tenant, session: session)
                if audiences[audience] != nil { transfers[audience, default: []].append(transfer) }
            }
        }
        let byteCountMax = min(
            Limits.eventProgressByteCountMax,
            Limits.eventProgressTotalByteCountMax / max(1, streams.count))
        for (audience, streams) in audiences {
            let text = changes(
                for: audience, transfers[audience] ?? [],
                newest: streams.lazy.map(\.number).max() ?? 0, byteCountMax: byteCountMax)
            if !text.isEmpty { for stream in streams { stream.sendProgress(text) } }
        }
    }

    /// Returns the progress that has changed since it was sent last: of at least one job, if one has changed.
    private mutating func changes(
        for audience: Audience, _ transfers: [RunningTransfer], newest: UInt64, byteCountMax: Int
    ) -> [UInt8] {
        var sent = self.sent[audience] ?? Sent()
        defer { self.sent[audience] = sent }
        // A new stream needs the progress of all jobs.
        if newest > sent.stream { sent = Sent(last: sent.last, stream: newest) }
        let transfers = transfers.sorted { $0.job < $1.job }
        let first = transfers.firstIndex { $0.job > sent.last } ?? 0
        var text: [UInt8] = []
        for transfer in transfers[first...] + transfers[..<first] where text.count < byteCountMax {
            guard sent.progress[transfer.job] != transfer.progress else { continue }
            sent.progress[transfer.job] = transfer.progress
            sent.last = transfer.job
            text += progressEvent(transfer.progress, of: transfer.job)
        }
        if sent.progress.count > transfers.count {
            let live = Set(transfers.map(\.job))
            sent.progress = sent.progress.filter { live.contains($0.key) }
        }
        return text
    }
}
