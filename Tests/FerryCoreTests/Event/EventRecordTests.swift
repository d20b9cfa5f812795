import Testing

@testable import FerryCore

@Suite("Packed events")
struct EventRecordTests {
    private func record(_ random: inout SeededRandom) -> EventRecord {
        let type = EventType.allCases.randomElement(using: &random) ?? .jobCreated
        return EventRecord(
            type, job: type.isOfSession ? nil : JobID(high: .random(in: 1 ... .max, using: &random), low: 7),
            at: Timestamp(microseconds: .random(in: -1 << 52...1 << 52, using: &random)),
            wanted: Bool.random(using: &random) ? nil : .random(in: .min ... .max, using: &random),
            attempt: .random(in: 0 ... .max, using: &random),
            revision: .random(in: 0 ... .max, using: &random),
            state: JobState.allCases.randomElement(using: &random),
            waitingFor: Bool.random(using: &random) ? nil : WaitingFor.allCases.randomElement(using: &random),
            detail: (0..<Int.random(in: 0...40, using: &random)).map { _ in
                .random(in: 0...255, using: &random)
            })
    }

    @Test("packed records are read back in order")
    func roundTrip() {
        var random = SeededRandom(seed: 1)
        for _ in 0..<200 {
            let records = (0..<Int.random(in: 0...20, using: &random)).map { _ in record(&random) }
            var packed: [UInt8] = []
            for record in records { record.pack(into: &packed) }
            let read = EventRecord.unpack(packed)
            #expect(read.map(\.record) == records)
            #expect((read.last?.range.upperBound ?? 0) == packed.count)
            for (entry, next) in zip(read, read.dropFirst()) {
                #expect(entry.range.upperBound == next.range.lowerBound)
            }
        }
    }

    @Test("records before a damaged one are read, and nothing after it")
    func damage() {
        var random = SeededRandom(seed: 2)
        for _ in 0..<2_000 {
            var packed: [UInt8] = []
            let records = (0..<3).map { _ in record(&random) }
            for record in records { record.pack(into: &packed) }
            let whole = EventRecord.unpack(packed)
            let cut = Int.random(in: 0...packed.count, using: &random)
            let short = EventRecord.unpack(Array(packed[..<cut]))
            #expect(short == whole.filter { $0.range.upperBound <= cut })
            let place = Int.random(in: 0..<packed.count, using: &random)
            packed[place] = .random(in: 0...255, using: &random)
            let changed = EventRecord.unpack(packed)
            #expect((changed.last?.range.upperBound ?? 0) <= packed.count)
            let before = whole.filter { $0.range.upperBound <= place }
            #expect(Array(changed.prefix(before.count)) == before)
        }
    }

    @Test("an event of an unknown type keeps its number and is not shown")
    func unknown() {
        var packed: [UInt8] = []
        EventRecord(.jobCreated, job: JobID(high: 1, low: 1), at: Timestamp(microseconds: 1)).pack(
            into: &packed)
        let byteCount = packed.count
        packed += packed
        packed[0] = 100
        let read = EventRecord.unpack(packed)
        #expect(read.count == 2 && read[0].record == nil && read[0].code == 100)
        #expect(read[1].record?.type == .jobCreated && read[1].range == byteCount..<(2 * byteCount))
    }

    @Test("every type has a unique code, which is its bit in a mask")
    func codes() {
        #expect(Set(EventType.allCases.map(\.code)).count == EventType.allCases.count)
        for type in EventType.allCases { #expect(EventType(code: type.code) == type) }
        #expect([EventType.jobCreated, .jobFailed].mask == 1 << 1 | 1 << 10)
        #expect(EventRecord.sessionTypes == 12_288)
    }
}
