import Testing

@testable import FerryStore

@Suite("Who may tell that others are silent")
struct SilenceTests {
    private static let cases: [(beats: [Double], judges: [Bool])] = [
        // From the first heartbeat on.
        ([0, 3, 6, 9], [true, true, true, true]),
        // After an outage not before a lease is over.
        ([0, 3, 23, 26, 35, 38], [true, true, false, false, false, true]),
        ([0, 3, 11, 14, 17, 20, 23, 26], [true, true, false, false, false, false, false, true]),
        // A second one begins a wait of its own.
        ([0, 20, 23, 40, 50, 56], [true, false, false, false, false, true]),
        // Where every heartbeat is late.
        ([0, 8, 16, 24, 32, 40, 48], [true, false, false, true, false, false, true]),
    ]

    @Test("whoever was away waits for a lease, once", arguments: cases)
    func waits(beats: [Double], judges: [Bool]) {
        var silence = Silence(leaseSeconds: 15)
        #expect(beats.map { silence.judges(at: Int64($0 * 1e9)) } == judges)
    }
}
