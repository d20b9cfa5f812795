internal import FerryCore
internal import Synchronization

/// A request that works on an upload of this node.
protocol UploadOccupant: AnyObject, Sendable {
    /// A later request waits for the upload: this one ends as soon as it can.
    func giveWay()
}

/// Lets one request at a time work on an upload. A later request ends the earlier one, and begins when that
/// one has kept its bytes. Any thread.
final class UploadQueue: Sendable {
    private struct Turn {
        let occupant: any UploadOccupant
        let begin: @Sendable () -> Void
    }
    private struct Entry {
        let current: any UploadOccupant
        var next: Turn?
    }
    private let entries = Mutex<[UploadID: Entry]>([:])

    /// Calls `begin` as soon as no other request works on the upload. The occupant must then call `leave`. If
    /// yet another request comes before, this one is told to give way, and `begin` is never called.
    func enter(_ upload: UploadID, _ occupant: any UploadOccupant, begin: @escaping @Sendable () -> Void) {
        let displaced = entries.withLock { entries -> [any UploadOccupant]? in
            guard let entry = entries[upload] else {
                entries[upload] = Entry(current: occupant)
                return nil
            }
            entries[upload]?.next = Turn(occupant: occupant, begin: begin)
            return [entry.current] + [entry.next?.occupant].compactMap(\.self)
        }
        guard let displaced else { return begin() }
        for one in displaced { one.giveWay() }
    }

    /// Ends the turn of a request, if it has one.
    func leave(_ upload: UploadID, _ occupant: any UploadOccupant) {
        let next = entries.withLock { entries -> Turn? in
            guard let entry = entries[upload] else { return nil }
            guard entry.current === occupant else {
                if entry.next?.occupant === occupant { entries[upload]?.next = nil }
                return nil
            }
            entries[upload] = entry.next.map { Entry(current: $0.occupant) }
            return entry.next
        }
        next?.begin()
    }
}

/// Bounds the requests of a node that add bytes to uploads, each of which has buffers. Any thread.
final class UploadLoad: Sendable {
    private let pool = Mutex(TenantPool(itemCount: Limits.uploadRequestCountMax))

    /// Counts a request. Throws `overloaded` if the tenant has as many as it leaves to others.
    func take(for tenant: String) throws(Problem) {
        try pool.withLock { pool throws(Problem) in
            guard !pool.take(for: tenant) else { return }
            var problem = Problem(
                .overloaded,
                "The tenant sends as many uploads to this node as it leaves to others, or \(pool.shareMax); "
                    + "try again later.")
            problem.fields = quotaFields("uploads", quota: Int64(pool.shareMax), seconds: 1)
            throw problem
        }
    }

    func release(of tenant: String) { pool.withLock { $0.release(of: tenant) } }
}
