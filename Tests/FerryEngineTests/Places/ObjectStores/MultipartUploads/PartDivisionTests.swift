import FerryCore
import Testing

@testable import FerryEngine

@Suite struct PartDivisionTests {
    private static let mebi: Int64 = 1 << 20

    @Test(
        "an object is divided into parts of 16 MiB, and into larger ones if there would be more than 10,000",
        arguments: [
            (0, 16, 1), (1, 16, 1), (16 << 20, 16, 1), ((16 << 20) + 1, 16, 2), (64 << 20, 16, 4),
            ((64 << 20) + 1, 16, 5), (160_000 << 20, 16, 10_000), ((160_000 << 20) + 1, 17, 9_412),
            (1 << 40, 105, 9_987), (5 << 40, 525, 9_987),
        ] as [(Int64, Int64, Int)])
    func sizes(total: Int64, part: Int64, count: Int) {
        let division = PartDivision(total: total)
        #expect(division.partByteCount == part * Self.mebi && division.count == count)
        #expect(division.count <= Limits.multipartPartCountMax)
    }

    @Test(
        "the parts follow each other, have at least 5 MiB but for the last one, and end with the object",
        arguments: [1, 5 << 20, 16 << 20, 100_000_001, 160_000 << 20, 5 << 40] as [Int64])
    func ranges(total: Int64) {
        let division = PartDivision(total: total)
        var end: Int64 = 0
        for part in 1...division.count {
            let range = division.range(of: part)
            #expect(range.lowerBound == end && !range.isEmpty)
            #expect(part == division.count || range.count >= 5 << 20)
            end = range.upperBound
        }
        #expect(end == total)
    }

    @Test("a later attempt divides as the first one did, whatever the size of parts is then")
    func storedDivision() throws {
        let division = try #require(PartDivision(total: 100 << 20, partByteCount: 5 << 20))
        #expect(division.count == 20 && division.range(of: 20).upperBound == 100 << 20)
        #expect(PartDivision(total: 5 << 40, partByteCount: 16 << 20) == nil)
        #expect(PartDivision(total: 10, partByteCount: 0) == nil)
        #expect(PartDivision(total: 10, partByteCount: -1) == nil)
    }
}
