import FerryCore
import Foundation
import Testing

/// All that can happen between two nodes and their database, as far as `LeaseModel` describes it. With
/// `FERRY_TEST_LONG` in the environment there are more faults.
@Suite("State space of leases")
struct LeaseModelTests {
    static let scopes: [LeaseModel] = {
        let short = [
            LeaseModel(jobCount: 3, [.crash], faultCount: 1, requestCount: 1),
            LeaseModel(jobCount: 3, [.lostAnswer], faultCount: 1, requestCount: 0),
            LeaseModel(jobCount: 2, faultCount: 1, requestCount: 1),
            LeaseModel(jobCount: 1, faultCount: 3, requestCount: 1),
        ]
        let long = [
            LeaseModel(jobCount: 3, faultCount: 1, requestCount: 0),
            LeaseModel(jobCount: 2, [.crash, .lapse], faultCount: 2, requestCount: 1),
            LeaseModel(jobCount: 1, faultCount: 5, requestCount: 3),
        ]
        let isLong = ProcessInfo.processInfo.environment["FERRY_TEST_LONG"] != nil
        return isLong ? short + long : short
    }()

    @Test("no reachable state loses a job, runs it twice or cannot end", arguments: scopes.indices)
    func search(scope: Int) {
        let search = LeaseSearch(Self.scopes[scope])
        #expect(search.failure == nil)
        #expect(search.states.contains { $0.isDone })
        #expect(search.states.count > 10_000, "a change of the model has made the search small")
    }

    @Test("a protocol without one of its rules has a counterexample", arguments: LeaseModel.Mutation.allCases)
    func mutations(mutation: LeaseModel.Mutation) throws {
        let model = LeaseModel(jobCount: 1, faultCount: 2, requestCount: 0, mutation: mutation)
        let failure = try #require(LeaseSearch(model).failure, "\(mutation)")
        print("\(mutation):\n\(failure)")
        #expect(!failure.steps.isEmpty)
    }
}
