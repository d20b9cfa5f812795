import Glibc
import Sys
import TestSupport
import Testing

@testable import FerryServer

@Suite("Memory of the node")
struct MemoryBudgetTests {
    @Test(
        "with enough memory the budgets have their documented values", arguments: [2 << 30, 64 << 30, .max])
    func enough(limit: Int) {
        let budget = MemoryBudget(limit: limit)
        #expect(budget.bodies == 256 << 20 && budget.gathered == 32 << 20)
    }

    @Test("less memory reduces the budgets down to a minimum")
    func less() {
        let budget = MemoryBudget(limit: 256 << 20)
        #expect(budget.bodies == 32 << 20 && budget.gathered == 16 << 20)
        #expect(budget.lentSlots == 256 && MemoryBudget(limit: 0).lentSlots == 16)
        #expect(MemoryBudget(limit: 0).bodies == 4 << 20 && MemoryBudget(limit: 0).gathered == 1 << 20)
    }

    /// Returns the limit for a directory with these files, by path and content.
    private func limit(_ files: [String: String]) throws -> Int {
        let directory = try TemporaryDirectory.make("memory")
        defer { TemporaryDirectory.remove(directory) }
        for (path, text) in files {
            let parts = path.split(separator: "/").dropLast()
            for count in 1...max(1, parts.count) {
                mkdir(directory + "/" + parts.prefix(count).joined(separator: "/"), 0o700)
            }
            _ = try createPrivateFile(directory + "/" + path, Array(text.utf8))
        }
        return memoryLimit(groups: directory + "/groups", root: directory + "/fs")
    }

    @Test("the memory limit is the smallest of the control group and its parents, in both versions")
    func groups() throws {
        let machine = memoryLimit(groups: "/nowhere")
        #expect(machine > 64 << 20)
        #expect(try limit(["groups": "0::/\n", "fs/memory.max": "50000000\n"]) == 50_000_000)
        let nested = [
            "groups": "0::/pods/one\n", "fs/memory.max": "max\n", "fs/pods/memory.max": "40000000\n",
            "fs/pods/one/memory.max": "max\n",
        ]
        #expect(try limit(nested) == 40_000_000)
        let first = [
            "groups": "3:cpu,cpuacct:/a\n2:memory:/a:b\n0::/\n",
            "fs/memory/memory.limit_in_bytes": "60000000\n",
            "fs/memory/a:b/memory.limit_in_bytes": "9223372036854771712\n",
        ]
        #expect(try limit(first) == 60_000_000)
        // In a container the file names the host's path, but the container's own group is the root.
        let contained = [
            "groups": "2:memory:/docker/0123\n", "fs/memory/memory.limit_in_bytes": "70000000\n",
        ]
        #expect(try limit(contained) == 70_000_000)
        #expect(try limit(["groups": "0::/\n", "fs/memory.max": "max\n"]) == machine)
        #expect(try limit(["groups": "no such line\n\n", "fs/memory.max": "1\n"]) == machine)
    }
}
