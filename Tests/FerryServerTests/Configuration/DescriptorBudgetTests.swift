import Testing

@testable import FerryServer

@Suite("Open files")
struct DescriptorBudgetTests {
    private func budget(_ limit: Int) -> DescriptorBudget {
        DescriptorBudget(limit: limit, transfers: 256, clients: 2_000, keptConnections: 512)
    }

    @Test("with enough descriptors the configured values apply", arguments: [2_812, 4_096, 1 << 20, .max])
    func enough(limit: Int) {
        let budget = budget(limit)
        #expect(budget.transfers == 256 && budget.clients == 2_000)
        #expect(budget.keptConnections == min(512, (limit - 2_812) / 2))
    }

    @Test(
        "with fewer descriptors all values shrink, and their sum stays within the limit",
        arguments: 64...3_000)
    func fewer(limit: Int) {
        let budget = budget(limit)
        #expect(budget.transfers >= 1 && budget.clients >= 16 && budget.lentSlots >= 0)
        let sum =
            2 * budget.transfers + budget.clients + budget.keptConnections + 2 * budget.lentSlots
        #expect(sum <= limit - min(200, limit / 4))
    }

    @Test("a limit of 1,024 open files allows three quarters of the transfers")
    func usual() {
        #expect(budget(1_024).transfers == 189 && budget(1_024).clients == 256)
    }

    @Test("a node without transfers reserves no descriptors for them")
    func others() {
        let budget = DescriptorBudget(limit: 4_096, transfers: 0, clients: 2_000, keptConnections: 0)
        #expect(budget.clients == 2_000 && budget.transfers == 0 && budget.keptConnections == 0)
    }
}
