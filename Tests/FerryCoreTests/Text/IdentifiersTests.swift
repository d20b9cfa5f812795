import FerryCore
import Synchronization
import Testing

@Suite("Identifiers")
struct IdentifiersTests {
    @Test("an identifier is read back from its text, in either case", arguments: UInt64(0)..<100)
    func roundTrip(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let id = JobID(high: random.next(), low: random.next())
        #expect(JobID(id.description) == id)
        #expect(JobID("job_" + id.description.dropFirst(4).uppercased()) == id)
        #expect(EventID(id.description) == nil)
    }

    @Test(
        "other texts are rejected",
        arguments: [
            "", "job_", "job_8zzzzzzzzzzzzzzzzzzzzzzzzz", "job_0000000000000000000000000",
            "job_0000000000000000000000000u",
            "job_000000000000000000000000000", "evt_00000000000000000000000000",
            "job_0000000000000000000000000é",
        ])
    func refused(_ text: String) { #expect(JobID(text) == nil) }

    @Test("identifiers and their texts have the same order")
    func order() {
        var random = SeededRandom(seed: 7)
        let ids = (0..<500).map { _ in JobID(high: random.next(), low: random.next()) }
        #expect(ids.sorted().map(\.description) == ids.map(\.description).sorted())
    }

    @Test("identifiers are unique and ordered within a millisecond and after the clock steps back")
    func generator() {
        let clock = Mutex(Int64(1_795_298_400_000_000))
        let generator = IdentifierGenerator { Timestamp(microseconds: clock.withLock { $0 }) }
        var ids: [JobID] = []
        for index in 0..<20_000 {
            if index % 5_000 == 4_999 { clock.withLock { $0 -= 3_000_000 } }
            ids.append(generator.make())
        }
        #expect(Set(ids).count == ids.count)
        #expect(zip(ids, ids.dropFirst()).allSatisfy { $0 < $1 })
        #expect(ids[0].millisecondsSince1970 == 1_795_298_400_000)
    }
}
