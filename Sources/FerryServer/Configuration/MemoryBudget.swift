import FerryCore
import FerryEngine
import Glibc
import Sys

/// Limits on buffers, by the memory of this node. In a small container, the bodies of a few large batches
/// would exceed the memory of its control group, and the kernel would kill the process.
///
/// A batch takes seven times its size while it is decoded. All buffers of transfers take about 80 MiB.
struct MemoryBudget {
    /// Bytes for request bodies; a single body may have half of it.
    let bodies: Int
    /// Bytes of received bodies that wait to be written.
    let gathered: Int
    /// Attempts that wait for a silent server beyond the number of slots.
    let lentSlots: Int

    /// Bytes that such an attempt takes at most: buffers of libcurl and TLS, and the job.
    private static let lentByteCount = 128 << 10

    /// `limit`: bytes of memory that the process may use.
    init(limit: Int) {
        bodies = min(Limits.bodyBytesMax, max(4 << 20, limit / 8))
        gathered = min(Limits.gatheredBytesMax, max(1 << 20, limit / 16))
        lentSlots = max(16, limit / 8 / Self.lentByteCount)
    }
}

/// Returns the bytes of memory that this process may use: those of the machine, or the limit of its control
/// group or one above it if that is lower (cgroups(7): `memory.max`; in version 1 `memory.limit_in_bytes`).
func memoryLimit(groups: String = "/proc/self/cgroup", root: String = "/sys/fs/cgroup") -> Int {
    let machine = max(1, sysconf(Int32(_SC_PHYS_PAGES))) * sysconf(Int32(_SC_PAGESIZE))
    // Without control groups, the limit is the memory of the machine.
    guard let bytes = try? readFile(groups, byteCountMax: 1 << 20) else { return machine }
    var limit = machine
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
        // ID, controllers (version 1), path.
        let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3 else { continue }
        if parts[1].isEmpty {
            limit = min(limit, smallest("memory.max", from: parts[2], below: root))
        } else if parts[1].split(separator: ",").contains("memory") {
            limit = min(limit, smallest("memory.limit_in_bytes", from: parts[2], below: root + "/memory"))
        }
    }
    return limit
}

/// Returns the smallest number in this file of a group and the groups above it.
private func smallest(_ name: String, from group: Substring, below root: String) -> Int {
    var names = group.split(separator: "/")
    var limit = Int.max
    while true {
        let path = ([root[...]] + names + [name[...]]).joined(separator: "/")
        // Groups without this file, such as the root, have no limit.
        if let bytes = try? readFile(path, byteCountMax: 100),
            let number = Int(String(decoding: bytes, as: UTF8.self).trimmed), number > 0
        {
            limit = min(limit, number)
        }
        if names.popLast() == nil { return limit }
    }
}
