import FerryCore
import Testing

@testable import FerryWebhooks

@Suite("Lanes of deliveries")
struct LaneTests {
    private let now = Timestamp(microseconds: 1_790_000_000_000_000)

    private func item(
        _ number: UInt64, lane: String, tenant: String = "default", endpoint: Delivery.Endpoint? = nil
    ) throws -> DeliveryBacklog.Item {
        let url = "http://\(lane).example/"
        return .init(
            delivery: .example(number, url: url, endpoint: endpoint, tenant: tenant),
            url: try WebURL.parse(url), startBefore: now + 10)
    }

    private func ordered() throws -> Delivery.Endpoint { try endpoint(isOrdered: true) }

    private func endpoint(isOrdered: Bool, revision: Int32 = 1) throws -> Delivery.Endpoint {
        let secret = try #require(serviceSecret)
        return Delivery.Endpoint(
            id: WebhookID(high: 5, low: 5), revision: revision,
            keys: WebhookKeys(.init(secret: secret, seed: Array(repeating: 1, count: 32))),
            format: .standard, isOrdered: isOrdered, retryDelays: [1])
    }

    @Test("a window grows while answers come quickly, stays small for slow ones, and halves at a failure")
    func window() {
        var window = ReceiverWindow()
        for _ in 0..<200 { window.accepted(duration: 0.01, wasFull: true) }
        #expect(window.value == ReceiverWindow.max)
        window.failed()
        #expect(window.value == ReceiverWindow.max / 2)
        for _ in 0..<200 { window.accepted(duration: 1, wasFull: true) }
        #expect(window.value == 16)
        for _ in 0..<200 { window.accepted(duration: 6, wasFull: true) }
        #expect(window.value == 4)
        for _ in 0..<10 { window.failed() }
        #expect(window.value == 1)
        window.accepted(duration: 0.01, wasFull: false)
        #expect(window.value == 1)
    }

    @Test("five failures in a row open a breaker; one try goes through when its pause is over")
    func breaker() {
        var breaker = ReceiverCircuitBreaker()
        for _ in 0..<4 {
            let opensEarly = breaker.failed(retryAfter: nil, now: now, jitter: 0.5)
            #expect(!opensEarly)
        }
        breaker.answered()
        for _ in 0..<4 {
            let opensEarly = breaker.failed(retryAfter: nil, now: now, jitter: 0.5)
            #expect(!opensEarly)
        }
        let hasOpened = breaker.failed(retryAfter: nil, now: now, jitter: 0.5)
        #expect(hasOpened)
        #expect(breaker.roomMax(now + 4.9) == 0 && breaker.roomMax(now + 5) == 1)
        // What was on its way then changes nothing.
        let hasOpenedAgain = breaker.failed(retryAfter: nil, now: now + 1, jitter: 0.5)
        #expect(!hasOpenedAgain)
        #expect(breaker.roomMax(now + 5) == 1)
        var pauses: [Double] = []
        var time = now + 5
        for _ in 0..<6 {
            let isOpen = breaker.failed(retryAfter: nil, now: time, jitter: 0.5)
            #expect(isOpen)
            let opensAt = breaker.opensAt ?? time
            pauses.append(opensAt - time)
            time = opensAt
        }
        #expect(pauses == [10, 20, 40, 60, 60, 60])
        // A clock that is set back does not prolong the pause beyond what a receiver may ask for.
        #expect(breaker.roomMax(time + -86_400) == 1)
        breaker.answered()
        #expect(breaker.roomMax(time) == nil)
    }

    @Test("a receiver that asks for a pause gets it at once; another revision of its endpoint ends it")
    func retryAfter() {
        var breaker = ReceiverCircuitBreaker()
        breaker.note(revision: 1)
        let isPaused = breaker.failed(retryAfter: 100, now: now, jitter: 0.5)
        #expect(isPaused)
        #expect(breaker.opensAt == now + 100)
        let isPausedLonger = breaker.failed(retryAfter: 1e9, now: now, jitter: 0.5)
        #expect(isPausedLonger)
        #expect(breaker.opensAt == now + 3_600)
        breaker.note(revision: 1)
        #expect(breaker.roomMax(now) == 0)
        breaker.note(revision: 2)
        #expect(breaker.roomMax(now) == nil)
    }

    @Test("lanes take turns, and each holds no more than its window")
    func turns() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let rooms = backlog.rooms(total: 100, now: now)
        #expect(rooms.other == 16 && rooms.lanes.isEmpty)
        backlog.add(
            try (0..<10).map { try item($0, lane: "a") } + (10..<12).map { try item($0, lane: "b") },
            rooms: rooms, now: now)
        var started: [UInt64] = []
        while let next = backlog.next() { started.append(next.delivery.id.low) }
        #expect(started == [0, 10, 1, 11, 2, 3])
        #expect(backlog.inFlightCount == 6 && backlog.waitingCount == 6)
        let lane = try item(0, lane: "a").delivery.lane
        #expect(backlog.rooms(total: 100, now: now).lanes[lane] == 6)
        let returned = backlog.finished(lane, .accepted(duration: 0.1), endsRun: false, now: now, jitter: 0)
        #expect(returned.isEmpty)
        // Two for the place that is free and the one that the window has grown by.
        let fifth = backlog.next()
        let sixth = backlog.next()
        #expect(fifth?.delivery.id.low == 4 && sixth?.delivery.id.low == 5)
        let seventh = backlog.next()
        #expect(seventh == nil)
    }

    @Test("a tenant with very many receivers leaves places to others, and gets what they leave")
    func places() throws {
        var backlog = DeliveryBacklog(concurrency: 16, waitingMax: 1_000)
        func started() -> [String: Int] {
            var count: [String: Int] = [:]
            while let next = backlog.next() { count[next.delivery.tenant, default: 0] += 1 }
            return count
        }
        backlog.hand(
            try (0..<40).map { try item($0, lane: "a\($0)", tenant: "a") }, overflowing: [], now: now)
        #expect(started() == ["a": 12])
        backlog.hand(
            try (40..<80).map { try item($0, lane: "b\($0)", tenant: "b") }, overflowing: [], now: now)
        // Nothing has ended, and it begins at once.
        #expect(started() == ["b": 4])
        let lane = try item(0, lane: "a0").delivery.lane
        _ = backlog.finished(lane, .accepted(duration: 1), endsRun: false, now: now, jitter: 0)
        // Both have their quarter: the last one stays free for a third.
        #expect(started().isEmpty && backlog.inFlightCount == 15)
        backlog.hand([try item(80, lane: "c", tenant: "c")], overflowing: [], now: now)
        #expect(started() == ["c": 1])
        for number in 1..<8 as Range<UInt64> {
            let lane = try item(number, lane: "a\(number)").delivery.lane
            _ = backlog.finished(lane, .accepted(duration: 1), endsRun: false, now: now, jitter: 0)
        }
        // They take turns.
        #expect(started() == ["a": 2, "b": 1] || started() == ["a": 1, "b": 2])
        #expect(backlog.inFlightCount == 12)
    }

    @Test("a tenant of which more waits than there is room for others claims nothing")
    func fullTenants() throws {
        var backlog = DeliveryBacklog(concurrency: 4, waitingMax: 20)
        backlog.hand(
            try (0..<11).map { try item($0, lane: "a\($0)", tenant: "a") }
                + [try item(20, lane: "b", tenant: "b")], overflowing: [], now: now)
        #expect(backlog.rooms(total: 4, now: now).fullTenants == ["a"])
        #expect(backlog.takeHandRooms(total: 8).rooms.fullTenants == ["a"])
        for _ in 0..<3 { _ = backlog.next() }
        #expect(backlog.rooms(total: 4, now: now).fullTenants.isEmpty)
    }

    @Test("a delivery of a large job counts as several, and fills its tenant's part sooner")
    func weights() throws {
        var backlog = DeliveryBacklog(concurrency: 4, waitingMax: 100)
        let plain = try item(0, lane: "a", tenant: "a")
        let json = Array(repeating: UInt8(ascii: "0"), count: 300_000)
        let heavy = plain.delivery.copy(endpoint: nil, jobJSON: json)
        #expect(plain.delivery.weight == 1 && heavy.weight == 19)
        let items = (0..<3).map { _ in
            DeliveryBacklog.Item(delivery: heavy, url: plain.url, startBefore: plain.startBefore)
        }
        backlog.hand(items + [try item(1, lane: "b", tenant: "b")], overflowing: [], now: now)
        #expect(backlog.waitingCount == 4 && backlog.waitingWeight == 58)
        #expect(backlog.rooms(total: 4, now: now).fullTenants == ["a"])
        for _ in 0..<2 { _ = backlog.next() }
        #expect(backlog.waitingWeight < 40 && backlog.rooms(total: 4, now: now).fullTenants.isEmpty)
        let removed = backlog.removeWaiting()
        #expect(removed.count == 2 && backlog.waitingCount == 0 && backlog.waitingWeight == 0)
    }

    @Test("what was claimed of an endpoint before it was changed goes back", arguments: [false, true])
    func changed(isOrdered: Bool) throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let lane = ReceiverQueueID(high: 5, low: 5)
        let before = try endpoint(isOrdered: isOrdered)
        let rooms = backlog.rooms(total: 100, now: now)
        backlog.add(
            try (0..<8).map { try item($0, lane: "a", endpoint: before) } + [item(8, lane: "b")],
            rooms: rooms, now: now)
        let first = backlog.next()
        #expect(first != nil)
        let same = backlog.note([lane: 1])
        #expect(same.isEmpty)
        let waitingCount = backlog.waitingCount
        let returned = backlog.note([lane: 2])
        // Not that of another receiver, nor what is on its way.
        #expect(returned.map(\.delivery.id.low) == Array(1..<8))
        #expect(backlog.waitingCount == waitingCount - 7 && backlog.inFlightCount == 1)
        let after = try endpoint(isOrdered: isOrdered, revision: 2)
        backlog.add([try item(1, lane: "a", endpoint: after)], rooms: rooms, now: now)
        let again = backlog.note([lane: 2])
        #expect(again.isEmpty)
    }

    @Test("when a breaker opens, what waits goes back, and the lane claims one at most")
    func opening() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let rooms = backlog.rooms(total: 100, now: now)
        backlog.add(try (0..<16).map { try item($0, lane: "a") }, rooms: rooms, now: now)
        let lane = try item(0, lane: "a").delivery.lane
        var returned = 0
        for _ in 0..<5 {
            guard backlog.next() != nil else { break }
            returned +=
                backlog.finished(lane, .failed(retryAfter: nil), endsRun: true, now: now, jitter: 0.5).count
        }
        #expect(returned == 11 && backlog.waitingCount == 0)
        #expect(backlog.rooms(total: 100, now: now).lanes[lane] == 0)
        #expect(backlog.nextProbe(after: now) == now + 5 && backlog.nextProbe(after: now + 5) == nil)
        #expect(backlog.rooms(total: 100, now: now + 5).lanes[lane] == 1)
        backlog.tidy(now + 20)
        #expect(backlog.rooms(total: 100, now: now).lanes[lane] == 0)
        backlog.tidy(now + 66)
        #expect(backlog.rooms(total: 100, now: now).lanes.isEmpty)
    }

    @Test("what may be handed over follows the window; nothing while more waits or it is left alone")
    func handing() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let lane = try item(0, lane: "a").delivery.lane
        #expect(backlog.takeHandRooms(total: 9).rooms.other == 16)
        backlog.hand(try (0..<10).map { try item($0, lane: "a") }, overflowing: [], now: now)
        #expect(backlog.takeHandRooms(total: 9).rooms.lanes == [lane: 6])
        #expect(backlog.takeHandRooms(total: 9).rooms.lanes.isEmpty)
        backlog.hand([], overflowing: [lane], now: now)
        #expect(backlog.takeHandRooms(total: 9).rooms.lanes == [lane: 0])
        // A claim that finds less than it had room for has found everything.
        let rooms = backlog.rooms(total: 100, now: now)
        backlog.add([try item(10, lane: "a")], rooms: rooms, now: now)
        #expect(backlog.takeHandRooms(total: 9).rooms.lanes == [lane: 5])
        for _ in 0..<ReceiverCircuitBreaker.failureCountMax {
            guard backlog.next() != nil else { break }
            _ = backlog.finished(lane, .failed(retryAfter: nil), endsRun: true, now: now, jitter: 0.5)
        }
        #expect(backlog.takeHandRooms(total: 9).rooms.lanes == [lane: 0])
        backlog.tidy(now + 66)
        let gone = backlog.takeHandRooms(total: 9).gone
        #expect(gone == [lane])
    }

    @Test("after 410 nothing more of an endpoint is sent, and its breaker stays closed")
    func gone() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let rooms = backlog.rooms(total: 100, now: now)
        backlog.add(try (0..<16).map { try item($0, lane: "a") }, rooms: rooms, now: now)
        let lane = try item(0, lane: "a").delivery.lane
        while backlog.next() != nil {}
        let returned = backlog.finished(lane, .gone, endsRun: false, now: now, jitter: 0)
        #expect(returned.count == 12 && backlog.inFlightCount == 3 && backlog.waitingCount == 0)
        #expect(backlog.nextProbe(after: now) == nil)
    }

    @Test("an ordered lane sends one at a time; after a failure the rest goes back")
    func order() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let endpoint = try ordered()
        let rooms = backlog.rooms(total: 100, now: now)
        backlog.add(try (0..<4).map { try item($0, lane: "a", endpoint: endpoint) }, rooms: rooms, now: now)
        let lane = ReceiverQueueID(high: 5, low: 5)
        let first = backlog.next()
        let second = backlog.next()
        #expect(first?.delivery.id.low == 0 && second == nil)
        #expect(backlog.rooms(total: 100, now: now).lanes[lane] == 0)
        let leftOver = backlog.finished(lane, .accepted(duration: 0), endsRun: false, now: now, jitter: 0)
        #expect(leftOver.isEmpty)
        let next = backlog.next()
        #expect(next?.delivery.id.low == 1)
        let returned = backlog.finished(lane, .failed(retryAfter: nil), endsRun: true, now: now, jitter: 0)
        #expect(returned.map(\.delivery.id.low) == [2, 3])
        let last = backlog.next()
        #expect(last == nil && backlog.rooms(total: 100, now: now).lanes[lane] == 16)
    }
}
