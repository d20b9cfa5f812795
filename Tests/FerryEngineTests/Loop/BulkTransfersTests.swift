import Testing

@testable import FerryEngine

@Suite("Large transfers on the loops") struct BulkTransfersTests {
    private let bulk = BulkTransfers(loopCount: 2)

    private func loops(_ origin: String, _ count: Int, home: Int = 1, isLarge: Bool? = nil) -> [Int] {
        (0..<count).map { _ in bulk.place(origin, home: home, isLarge: isLarge).loop }
    }

    @Test("the first transfers of an unknown origin take turns, and later ones go to its loop")
    func unknown() {
        #expect(loops("a", 12) == [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1])
        #expect(loops("b", 1) == [1])
        // As soon as one has ended, the others go to its loop.
        #expect(loops("d", 2) == [1, 0])
        bulk.endedSmall("d")
        #expect(loops("d", 3) == [1, 1, 1])
        // Small by the job's own word.
        #expect(loops("c", 3, isLarge: false) == [1, 1, 1])
    }

    @Test("large transfers go to the loop with the fewest")
    func large() {
        #expect(loops("a", 3, isLarge: true) == [1, 0, 1])
        bulk.note("b")
        #expect(loops("b", 3) == [0, 1, 0])
        for loop in [0, 0, 0] { bulk.ended(on: loop) }
        #expect(bulk.place("b", home: 1, isLarge: nil) == .init(loop: 0, isBulk: true))
        // Other origins are still unknown.
        #expect(bulk.place("c", home: 1, isLarge: nil) == .init(loop: 1, isFirst: true))
    }
}
