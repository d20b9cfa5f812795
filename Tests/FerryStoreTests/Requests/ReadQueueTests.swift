import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Turns of reads", .onOwnThread)
struct ReadQueueTests {
    private static let greedy = ReadOwner.tenant("greedy")
    private static let small = ReadOwner.tenant("small")

    /// A read of an owner. `isJob`: it can be read together with others.
    private struct Read: Equatable {
        let number: Int
        var isJob = false
    }

    private static func queue(connections: Int = 4, waiting: Int = 1_000) -> ReadQueue<Read> {
        ReadQueue(connectionCount: connections, waitingCountMax: waiting)
    }

    private static func next(_ queue: inout ReadQueue<Read>) -> (owner: ReadOwner, reads: [Read])? {
        queue.next(joins: \.isJob, countMax: 3)
    }

    @Test(
        "a read of one tenant waits for one turn of another tenant, however many reads that has",
        arguments: [4, 40])
    func turns(greedyCount: Int) {
        var queue = Self.queue(connections: 1)
        for number in 0..<greedyCount { _ = queue.add(Read(number: number), of: Self.greedy) }
        let first = Self.next(&queue)
        #expect(first?.owner == Self.greedy)
        _ = queue.add(Read(number: 0), of: Self.small)
        queue.end(Self.greedy)
        var owners: [ReadOwner] = []
        while owners.last != Self.small, let turn = Self.next(&queue) {
            owners.append(turn.owner)
            queue.end(turn.owner)
        }
        #expect(owners.count <= 2)
    }

    @Test("one tenant's reads leave a connection for other tenants")
    func share() {
        var queue = Self.queue(connections: 4)
        for number in 0..<10 { _ = queue.add(Read(number: number), of: Self.greedy) }
        var owners: [ReadOwner?] = []
        for _ in 0..<4 { owners.append(Self.next(&queue)?.owner) }
        #expect(owners == [Self.greedy, Self.greedy, Self.greedy, nil])
        _ = queue.add(Read(number: 0), of: Self.small)
        let other = Self.next(&queue)
        #expect(other?.owner == Self.small)
        queue.end(Self.greedy)
        let next = Self.next(&queue)
        #expect(next?.reads == [Read(number: 3)])
    }

    @Test("reads of a tenant run in the order in which they came, and none is lost")
    func order() {
        var queue = Self.queue(connections: 2)
        for number in 0..<20 {
            _ = queue.add(Read(number: number), of: number % 2 == 0 ? Self.greedy : Self.small)
        }
        var seen: [ReadOwner: [Int]] = [:]
        while let turn = Self.next(&queue) {
            seen[turn.owner, default: []] += turn.reads.map(\.number)
            queue.end(turn.owner)
        }
        #expect(seen[Self.greedy] == Array(stride(from: 0, to: 20, by: 2)))
        #expect(seen[Self.small] == Array(stride(from: 1, to: 20, by: 2)))
        #expect(queue.waitingCount == 0)
    }

    @Test("a tenant's reads beyond the limit are refused; those of other tenants and continued ones are not")
    func bound() {
        var queue = Self.queue(waiting: 2)
        var added = (0..<3).map { queue.add(Read(number: $0), of: Self.greedy) }
        #expect(added == [true, true, false])
        added = [
            queue.add(Read(number: 3), of: Self.greedy, continues: true),
            queue.add(Read(number: 0), of: Self.small),
        ]
        added += (0..<10).map { queue.add(Read(number: $0), of: .service) }
        #expect(added.allSatisfy { $0 })
        #expect(queue.waitingCount == 14)
    }

    @Test("successive reads of one tenant's jobs share a turn, up to the limit")
    func joins() {
        var queue = Self.queue()
        for number in 0..<6 { _ = queue.add(Read(number: number, isJob: number != 4), of: Self.greedy) }
        _ = queue.add(Read(number: 9, isJob: true), of: Self.small)
        var turns: [[Int]] = []
        while let turn = Self.next(&queue) {
            turns.append(turn.reads.map(\.number))
            queue.end(turn.owner)
        }
        #expect(turns == [[0, 1, 2], [9], [3], [4], [5]])
    }

    @Test("in any order of events every read runs once, and no tenant exceeds its turns")
    func random() {
        for seed in 1...50 as ClosedRange<UInt64> {
            var random = SeededRandom(seed: seed)
            let connectionCount = Int.random(in: 1...5, using: &random)
            var queue = Self.queue(connections: connectionCount)
            var (added, seen): ([ReadOwner: Int], [ReadOwner: [Int]]) = ([:], [:])
            var running: [ReadOwner] = []
            for step in 0..<600 {
                let owner = ReadOwner.tenant("\(Int.random(in: 0..<4, using: &random))")
                if step < 400, Bool.random(using: &random) {
                    _ = queue.add(Read(number: added[owner, default: 0]), of: owner)
                    added[owner, default: 0] += 1
                } else if running.count < connectionCount, let turn = Self.next(&queue) {
                    seen[turn.owner, default: []] += turn.reads.map(\.number)
                    running.append(turn.owner)
                } else if !running.isEmpty {
                    queue.end(running.remove(at: Int.random(in: 0..<running.count, using: &random)))
                }
                for owner in Set(running) {
                    let count = running.filter { $0 == owner }.count
                    #expect(count <= max(1, connectionCount - 1), "seed \(seed)")
                }
            }
            running.forEach { queue.end($0) }
            while let turn = Self.next(&queue) {
                seen[turn.owner, default: []] += turn.reads.map(\.number)
                queue.end(turn.owner)
            }
            #expect(seen == added.mapValues { Array(0..<$0) }, "seed \(seed)")
        }
    }
}
