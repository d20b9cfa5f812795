import FerryCore
import Testing

@testable import FerryWebhooks

@Suite("Receiver queues")
struct DeliveryBacklogTests {
    private let now = Timestamp(microseconds: 1_790_000_000_000_000)

    private func item(
        _ number: UInt64, host: String, tenant: String = "default", endpoint: Delivery.Endpoint? = nil
    ) throws -> DeliveryBacklog.Item {
        let url = "http://\(host).example/"
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

    @Test("a window grows with quick responses, stays small with slow ones, halves on failure")
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

    @Test("five failures in a row open the breaker; one request passes after its pause")
    func breaker() {
        var breaker = ReceiverCircuitBreaker()
        for _ in 0..<4 {
            let opensEarly = breaker.failed(retryAfter: nil, now: now, jitter: 0.5)
            #expect(!opensEarly)
        }
        breaker.succeeded()
        for _ in 0..<4 {
            let opensEarly = breaker.failed(retryAfter: nil, now: now, jitter: 0.5)
            #expect(!opensEarly)
        }
        let hasOpened = breaker.failed(retryAfter: nil, now: now, jitter: 0.5)
        #expect(hasOpened)
        #expect(breaker.heldMax(now + 4.9) == 0 && breaker.heldMax(now + 5) == 1)
        // What was on its way then changes nothing.
        let hasOpenedAgain = breaker.failed(retryAfter: nil, now: now + 1, jitter: 0.5)
        #expect(!hasOpenedAgain)
        #expect(breaker.heldMax(now + 5) == 1)
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
        #expect(breaker.heldMax(time + -86_400) == 1)
        breaker.succeeded()
        #expect(breaker.heldMax(time) == nil)
    }

    @Test("Retry-After opens the breaker at once; a changed endpoint closes it")
    func retryAfter() {
        var breaker = ReceiverCircuitBreaker()
        breaker.update(revision: 1)
        let isPaused = breaker.failed(retryAfter: 100, now: now, jitter: 0.5)
        #expect(isPaused)
        #expect(breaker.opensAt == now + 100)
        let isPausedLonger = breaker.failed(retryAfter: 1e9, now: now, jitter: 0.5)
        #expect(isPausedLonger)
        #expect(breaker.opensAt == now + 3_600)
        breaker.update(revision: 1)
        #expect(breaker.heldMax(now) == 0)
        breaker.update(revision: 2)
        #expect(breaker.heldMax(now) == nil)
    }

    @Test("receiver queues take turns, and each is limited by its window")
    func turns() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let demand = backlog.demand(total: 100, now: now)
        #expect(demand.other == 16 && demand.queues.isEmpty)
        backlog.add(
            try (0..<10).map { try item($0, host: "a") } + (10..<12).map { try item($0, host: "b") },
            demand: demand, now: now)
        var started: [UInt64] = []
        while let next = backlog.next() { started.append(next.delivery.id.low) }
        #expect(started == [0, 10, 1, 11, 2, 3])
        #expect(backlog.inFlightCount == 6 && backlog.waitingCount == 6)
        let queue = try item(0, host: "a").delivery.receiverQueue
        #expect(backlog.demand(total: 100, now: now).queues[queue] == 6)
        let returned = backlog.finished(queue, .accepted(duration: 0.1), endsRun: false, now: now, jitter: 0)
        #expect(returned.isEmpty)
        // Two for the place that is free and the one that the window has grown by.
        let fifth = backlog.next()
        let sixth = backlog.next()
        #expect(fifth?.delivery.id.low == 4 && sixth?.delivery.id.low == 5)
        let seventh = backlog.next()
        #expect(seventh == nil)
    }

    @Test("a tenant with many receivers leaves requests to others and uses what they leave")
    func places() throws {
        var backlog = DeliveryBacklog(concurrency: 16, waitingMax: 1_000)
        func started() -> [String: Int] {
            var count: [String: Int] = [:]
            while let next = backlog.next() { count[next.delivery.tenant, default: 0] += 1 }
            return count
        }
        backlog.addLeased(
            try (0..<40).map { try item($0, host: "a\($0)", tenant: "a") }, unreserved: [], now: now)
        #expect(started() == ["a": 12])
        backlog.addLeased(
            try (40..<80).map { try item($0, host: "b\($0)", tenant: "b") }, unreserved: [], now: now)
        // Nothing has ended, and it begins at once.
        #expect(started() == ["b": 4])
        let queue = try item(0, host: "a0").delivery.receiverQueue
        _ = backlog.finished(queue, .accepted(duration: 1), endsRun: false, now: now, jitter: 0)
        // Both have their quarter: the last one stays free for a third.
        #expect(started().isEmpty && backlog.inFlightCount == 15)
        backlog.addLeased([try item(80, host: "c", tenant: "c")], unreserved: [], now: now)
        #expect(started() == ["c": 1])
        for number in 1..<8 as Range<UInt64> {
            let queue = try item(number, host: "a\(number)").delivery.receiverQueue
            _ = backlog.finished(queue, .accepted(duration: 1), endsRun: false, now: now, jitter: 0)
        }
        // They take turns.
        #expect(started() == ["a": 2, "b": 1] || started() == ["a": 1, "b": 2])
        #expect(backlog.inFlightCount == 12)
    }

    @Test("a tenant with more waiting weight than remains for others claims nothing")
    func fullTenants() throws {
        var backlog = DeliveryBacklog(concurrency: 4, waitingMax: 20)
        backlog.addLeased(
            try (0..<11).map { try item($0, host: "a\($0)", tenant: "a") }
                + [try item(20, host: "b", tenant: "b")], unreserved: [], now: now)
        #expect(backlog.demand(total: 4, now: now).fullTenants == ["a"])
        #expect(backlog.takeChangedDemand(total: 8).demand.fullTenants == ["a"])
        for _ in 0..<3 { _ = backlog.next() }
        #expect(backlog.demand(total: 4, now: now).fullTenants.isEmpty)
    }

    @Test("a large delivery counts by its weight toward its tenant's share")
    func weights() throws {
        var backlog = DeliveryBacklog(concurrency: 4, waitingMax: 100)
        let plain = try item(0, host: "a", tenant: "a")
        let json = Array(repeating: UInt8(ascii: "0"), count: 300_000)
        let heavy = plain.delivery.copy(endpoint: nil, jobJSON: json)
        #expect(plain.delivery.weight == 1 && heavy.weight == 19)
        let items = (0..<3).map { _ in
            DeliveryBacklog.Item(delivery: heavy, url: plain.url, startBefore: plain.startBefore)
        }
        backlog.addLeased(items + [try item(1, host: "b", tenant: "b")], unreserved: [], now: now)
        #expect(backlog.waitingCount == 4 && backlog.waitingWeight == 58)
        #expect(backlog.demand(total: 4, now: now).fullTenants == ["a"])
        for _ in 0..<2 { _ = backlog.next() }
        #expect(backlog.waitingWeight < 40 && backlog.demand(total: 4, now: now).fullTenants.isEmpty)
        let removed = backlog.removeWaiting()
        #expect(removed.count == 2 && backlog.waitingCount == 0 && backlog.waitingWeight == 0)
    }

    @Test("a change of an endpoint gives back waiting deliveries", arguments: [false, true])
    func changed(isOrdered: Bool) throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let queue = ReceiverQueueID(high: 5, low: 5)
        let before = try endpoint(isOrdered: isOrdered)
        let demand = backlog.demand(total: 100, now: now)
        backlog.add(
            try (0..<8).map { try item($0, host: "a", endpoint: before) } + [item(8, host: "b")],
            demand: demand, now: now)
        let first = backlog.next()
        #expect(first != nil)
        let same = backlog.update(revisions: [queue: 1])
        #expect(same.isEmpty)
        let waitingCount = backlog.waitingCount
        let returned = backlog.update(revisions: [queue: 2])
        // Not that of another receiver, nor what is on its way.
        #expect(returned.map(\.delivery.id.low) == Array(1..<8))
        #expect(backlog.waitingCount == waitingCount - 7 && backlog.inFlightCount == 1)
        let after = try endpoint(isOrdered: isOrdered, revision: 2)
        backlog.add([try item(1, host: "a", endpoint: after)], demand: demand, now: now)
        let again = backlog.update(revisions: [queue: 2])
        #expect(again.isEmpty)
    }

    @Test("an opening breaker returns waiting deliveries, and the queue claims one at most")
    func opening() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let demand = backlog.demand(total: 100, now: now)
        backlog.add(try (0..<16).map { try item($0, host: "a") }, demand: demand, now: now)
        let queue = try item(0, host: "a").delivery.receiverQueue
        var returned = 0
        for _ in 0..<5 {
            guard backlog.next() != nil else { break }
            returned +=
                backlog.finished(queue, .failed(retryAfter: nil), endsRun: true, now: now, jitter: 0.5).count
        }
        #expect(returned == 11 && backlog.waitingCount == 0)
        #expect(backlog.demand(total: 100, now: now).queues[queue] == 0)
        #expect(backlog.nextProbe(after: now) == now + 5 && backlog.nextProbe(after: now + 5) == nil)
        #expect(backlog.demand(total: 100, now: now + 5).queues[queue] == 1)
        backlog.removeIdleQueues(now + 20)
        #expect(backlog.demand(total: 100, now: now).queues[queue] == 0)
        backlog.removeIdleQueues(now + 66)
        #expect(backlog.demand(total: 100, now: now).queues.isEmpty)
    }

    @Test("new leases follow the window and are 0 while more waits or the breaker is open")
    func handing() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let queue = try item(0, host: "a").delivery.receiverQueue
        #expect(backlog.takeChangedDemand(total: 9).demand.other == 16)
        backlog.addLeased(try (0..<10).map { try item($0, host: "a") }, unreserved: [], now: now)
        #expect(backlog.takeChangedDemand(total: 9).demand.queues == [queue: 6])
        #expect(backlog.takeChangedDemand(total: 9).demand.queues.isEmpty)
        backlog.addLeased([], unreserved: [queue], now: now)
        #expect(backlog.takeChangedDemand(total: 9).demand.queues == [queue: 0])
        // A claim that finds less than it had room for has found everything.
        let demand = backlog.demand(total: 100, now: now)
        backlog.add([try item(10, host: "a")], demand: demand, now: now)
        #expect(backlog.takeChangedDemand(total: 9).demand.queues == [queue: 5])
        for _ in 0..<ReceiverCircuitBreaker.failureCountMax {
            guard backlog.next() != nil else { break }
            _ = backlog.finished(queue, .failed(retryAfter: nil), endsRun: true, now: now, jitter: 0.5)
        }
        let paused = backlog.takeChangedDemand(total: 9).demand
        #expect(paused.queues == [queue: 0])
        #expect(paused.pauses == [queue: now + ReceiverCircuitBreaker.pauseMin])
        backlog.removeIdleQueues(now + 66)
        let gone = backlog.takeChangedDemand(total: 9).gone
        #expect(gone == [queue])
    }

    @Test("after 410 the endpoint's deliveries are returned, and its breaker stays closed")
    func gone() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let demand = backlog.demand(total: 100, now: now)
        backlog.add(try (0..<16).map { try item($0, host: "a") }, demand: demand, now: now)
        let queue = try item(0, host: "a").delivery.receiverQueue
        while backlog.next() != nil {}
        let returned = backlog.finished(queue, .gone, endsRun: false, now: now, jitter: 0)
        #expect(returned.count == 12 && backlog.inFlightCount == 3 && backlog.waitingCount == 0)
        #expect(backlog.nextProbe(after: now) == nil)
    }

    @Test("an ordered queue sends one at a time and returns the rest after a failure")
    func order() throws {
        var backlog = DeliveryBacklog(concurrency: 100, waitingMax: 1_000)
        let endpoint = try ordered()
        let demand = backlog.demand(total: 100, now: now)
        backlog.add(try (0..<4).map { try item($0, host: "a", endpoint: endpoint) }, demand: demand, now: now)
        let queue = ReceiverQueueID(high: 5, low: 5)
        let first = backlog.next()
        let second = backlog.next()
        #expect(first?.delivery.id.low == 0 && second == nil)
        #expect(backlog.demand(total: 100, now: now).queues[queue] == 0)
        let leftOver = backlog.finished(queue, .accepted(duration: 0), endsRun: false, now: now, jitter: 0)
        #expect(leftOver.isEmpty)
        let next = backlog.next()
        #expect(next?.delivery.id.low == 1)
        let returned = backlog.finished(queue, .failed(retryAfter: nil), endsRun: true, now: now, jitter: 0)
        #expect(returned.map(\.delivery.id.low) == [2, 3])
        let last = backlog.next()
        #expect(last == nil && backlog.demand(total: 100, now: now).queues[queue] == 16)
    }
}
