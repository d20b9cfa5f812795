internal import FerryCore

/// News of progress for those who listen to the log: written once for all who listen to the same thing, and
/// no more of it at a time than `Limits` allows, however many listen and however much runs; then jobs take
/// turns. One thread.
struct ProgressRound {
    /// Listeners to one tenant, or to one of its sessions.
    private struct Audience: Hashable {
        let tenant: String
        let session: String?
    }

    /// What an audience knows.
    private struct Knowledge {
        var told: [JobID: TransferProgress] = [:]
        /// Behind it the next turn begins.
        var last = JobID(high: 0, low: 0)
        /// The latest listener that was there.
        var listener: UInt64 = 0
    }

    private var audiences: [Audience: Knowledge] = [:]

    /// Tells these streams, which are about no single job, what is new.
    mutating func tell(_ streams: [EventStream], _ running: [RunningTransfer]) {
        var listeners: [Audience: [EventStream]] = [:]
        for stream in streams {
            let query = stream.subject.query
            listeners[Audience(tenant: query.tenant, session: query.session), default: []].append(stream)
        }
        audiences = audiences.filter { listeners[$0.key] != nil }
        var transfers: [Audience: [RunningTransfer]] = [:]
        for transfer in running {
            for session in [nil, transfer.session] {
                let audience = Audience(tenant: transfer.tenant, session: session)
                if listeners[audience] != nil { transfers[audience, default: []].append(transfer) }
            }
        }
        let byteCountMax = min(
            Limits.eventProgressByteCountMax,
            Limits.eventProgressTotalByteCountMax / max(1, streams.count))
        for (audience, streams) in listeners {
            let text = news(
                for: audience, transfers[audience] ?? [],
                listener: streams.lazy.map(\.number).max() ?? 0, byteCountMax: byteCountMax)
            if !text.isEmpty { for stream in streams { stream.tell(text) } }
        }
    }

    /// What has changed since it was told last, of one job at least.
    private mutating func news(
        for audience: Audience, _ transfers: [RunningTransfer], listener: UInt64, byteCountMax: Int
    ) -> [UInt8] {
        var knowledge = audiences[audience] ?? Knowledge()
        defer { audiences[audience] = knowledge }
        // Whoever is new knows nothing yet.
        if listener > knowledge.listener { knowledge = Knowledge(last: knowledge.last, listener: listener) }
        let transfers = transfers.sorted { $0.job < $1.job }
        let first = transfers.firstIndex { $0.job > knowledge.last } ?? 0
        var text: [UInt8] = []
        for transfer in transfers[first...] + transfers[..<first] where text.count < byteCountMax {
            guard knowledge.told[transfer.job] != transfer.progress else { continue }
            knowledge.told[transfer.job] = transfer.progress
            knowledge.last = transfer.job
            text += progressEvent(transfer.progress, of: transfer.job)
        }
        if knowledge.told.count > transfers.count {
            let live = Set(transfers.map(\.job))
            knowledge.told = knowledge.told.filter { live.contains($0.key) }
        }
        return text
    }
}
