extension SessionSnapshot {
    /// Returns whether jobs may be accepted that were read at epoch `known`, or `nil` if they do not depend
    /// on the configuration of their sessions.
    public func verdict(on jobs: [NewJob], known: Int64?) -> Verdict {
        // Read before the removal of a session whose name is not remembered, or from a database that has lost
        // that epoch.
        if let known, known < min(removal, removedSince) || known > epoch { return .changed }
        let missesRemoval = known.map { $0 < removal } ?? false
        guard !records.isEmpty || missesRemoval else { return .acceptable }
        for job in jobs {
            let key = SessionKey(tenant: job.tenant, name: job.spec.session)
            if let known, missesRemoval, let removal = removed[key], known < removal { return .changed }
            guard let record = records[key] else { continue }
            if record.invalidation != nil { return .invalidated }
            guard record.isReadable else { return .unreadable }
            if let known, record.epoch > known { return .changed }
        }
        return .acceptable
    }
}
