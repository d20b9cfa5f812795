import FerryCore
import TestThreads
import Testing

@testable import FerryStore

@Suite("Failure detector", .onOwnThread)
struct FailureDetectorTests {
    /// In seconds.
    private static let lease = 15.0

    /// One look at another node: when it is, and which heartbeat is seen, in seconds.
    typealias Look = (at: Double, heartbeat: Int64)

    private static func looks(_ instants: [Double], heartbeat: Int64 = 1) -> [Look] {
        instants.map { (at: $0, heartbeat: heartbeat) }
    }

    private static let cases: [(looks: [Look], dead: [Double])] = [
        // Who has just started hears everybody for a lease first, however old the heartbeats are.
        (looks([0, 3, 6, 9, 12, 15, 18]), [15, 18]),
        // A few milliseconds are nothing.
        (looks([0, 2.99, 5.99, 8.99, 11.99, 14.99]), [14.99]),
        // From the last heartbeat on.
        (looks([0, 3, 6]) + looks([9, 12, 15, 18, 21, 24], heartbeat: 2), [24]),
        // Alive, whatever the database's clock is set to.
        ([(0, 100), (3, 7_000), (6, 103), (9, 106), (12, -50), (15, -47), (18, -44), (21, -41)], []),
        // After an outage of a lease not before a lease is over.
        (looks([0, 3, 6, 26, 29, 32, 35, 38, 41]), [41]),
        // After a short one there is time for several heartbeats.
        (looks([0, 3, 11, 14, 17, 20]), [20]),
        (looks([0, 3, 18, 21, 24, 27]), [27]),
        // Where every heartbeat is late.
        (looks([0, 8, 16, 24, 32, 40]), [32, 40]),
    ]

    @Test("a node is dead after a lease of reads without a new heartbeat", arguments: cases)
    func waits(looks: [Look], dead: [Double]) {
        var detector = FailureDetector(leaseSeconds: Self.lease)
        let node = NodeID(high: 1, low: 2)
        var found: [Double] = []
        for look in looks {
            let heartbeat = Timestamp(microseconds: look.heartbeat * 1_000_000)
            let gone = detector.dead([node: heartbeat], at: Int64(look.at * 1e9))
            if gone == [node: heartbeat] { found.append(look.at) } else { #expect(gone.isEmpty) }
        }
        #expect(found == dead)
    }

    @Test("nodes are judged independently, and one that was missing in a read counts as new")
    func several() {
        var detector = FailureDetector(leaseSeconds: Self.lease)
        let (first, second) = (NodeID(high: 0, low: 1), NodeID(high: 0, low: 2))
        let heartbeat = Timestamp(microseconds: 1)
        var dead: [[NodeID: Timestamp]] = []
        for number in 0..<12 {
            var heartbeats = [first: heartbeat]
            if number != 2 { heartbeats[second] = heartbeat }
            dead.append(detector.dead(heartbeats, at: Int64(number) * 3_000_000_000))
        }
        #expect(dead[4].isEmpty && dead[5] == [first: heartbeat] && dead[7] == [first: heartbeat])
        #expect(dead[8].count == 2 && dead[11].count == 2)
    }

    @Test("no node is found dead while it relies on its lease", arguments: [0.5, 2, 15, 60])
    func fencing(lease: Double) {
        var detector = FailureDetector(leaseSeconds: lease)
        let node = NodeID(high: 1, low: 2)
        let giveUp = Int64((lease - NodeLease.margin(of: lease)) * 1e9)
        _ = detector.dead([node: Timestamp(microseconds: 1)], at: 0)
        for look in 1...10 {
            let now = giveUp * Int64(look) / 10
            #expect(detector.dead([node: Timestamp(microseconds: 1)], at: now).isEmpty)
        }
    }
}
