import Sys
import Testing

@Suite struct BufferedRandomTests {
    @Test("numbers do not repeat, within a generator and between copies that have read nothing")
    func distinct() {
        let fresh = BufferedRandom()
        let all = (0..<4).flatMap { _ in
            var random = fresh
            // More than two reads of the kernel.
            return (0..<100).map { _ in random.next() }
        }
        #expect(Set(all).count == all.count)
        // Each bit is set in some number, and not in all.
        #expect(all.reduce(0, |) == .max && all.reduce(.max, &) == 0)
    }
}
