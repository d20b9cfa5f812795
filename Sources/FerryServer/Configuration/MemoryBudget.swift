import FerryCore
import FerryEngine
import Glibc
import Sys

/// What this node keeps in memory for others, as far as it may have any. In a container with little, bodies
/// of a few large batches would be its end: the kernel kills whoever takes more than its control group may.
///
/// A batch takes seven times its bytes while it becomes jobs, and what is transferred some 80 MiB.
struct MemoryBudget {
    /// Bytes of the bodies of requests; one of them may have half of it.
    let bodies: Int
    /// Bytes of received bodies that gather before they are written.
    let gathered: Int

    /// `limit`: bytes that the process may use.
    init(limit: Int) {
        bodies = min(Limits.bodyBytesMax, max(4 << 20, limit / 8))
        gathered = min(Limits.gatheredBytesMax, max(1 << 20, limit / 16))
    }
}

/// Bytes that this process may use: the memory of the machine, or less where its control group, or one above
/// it, says so (cgroups(7): `memory.max`, in the first version `memory.limit_in_bytes`).
func memoryLimit(groups: String = "/proc/self/cgroup", root: String = "/sys/fs/cgroup") -> Int {
    let machine = max(1, sysconf(Int32(_SC_PHYS_PAGES))) * sysconf(Int32(_SC_PAGESIZE))
    guard let bytes = try? readFile(groups, byteCountMax: 1 << 20) else { return machine }
    var limit = machine
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
        // Number, controllers of the first version, path.
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

/// The smallest number that a group or one above it has in this file.
private func smallest(_ name: String, from group: Substring, below root: String) -> Int {
    var names = group.split(separator: "/")
    var limit = Int.max
    while true {
        let path = ([root[...]] + names + [name[...]]).joined(separator: "/")
        if let bytes = try? readFile(path, byteCountMax: 100),
            let number = Int(String(decoding: bytes, as: UTF8.self).trimmed), number > 0
        {
            limit = min(limit, number)
        }
        if names.popLast() == nil { return limit }
    }
}
