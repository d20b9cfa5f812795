import FerryCore
import FerryWebhooks
import Synchronization
import Sys
import TestSupport
import Testing

@Suite("Webhook sender")
struct WebhookSenderTests {
    @Test("an accepted delivery is signed over the sent bytes and recorded")
    func accepted() throws {
        let receiver = try Receiver(.answer("HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nfine\0"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let delivery = Delivery.example(url: receiver.url)
        let result = try #require(bench.deliver([delivery]).first)
        #expect(result.verdict == .accepted)
        #expect(result.status == 202 && result.error == nil && result.number == 1)
        #expect(result.responseExcerpt == "fine")
        let request = try #require(take(1, from: receiver.requests).first)
        let secret = try #require(serviceSecret)
        let id = try #require(request.header("webhook-id"))
        let timestamp = try #require(request.header("webhook-timestamp"))
        #expect(request.line == "POST /hook HTTP/1.1")
        #expect(id == delivery.event.description)
        #expect(
            request.header("webhook-signature")
                == signature(secret, id: id, timestamp: timestamp, body: request.body)
        )
        #expect(bench.queue.unfinishedCount == 0)
        #expect(bench.sender.metrics.deliveredCount == 1)
    }

    @Test("the job's own secret signs instead of the service's")
    func ownSecret() throws {
        let receiver = try Receiver(Receiver.status("200 OK"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let secret = try #require(WebhookSecret(key: Array(100..<132)))
        _ = bench.deliver([.example(url: receiver.url, secret: secret.text)])
        let request = try #require(take(1, from: receiver.requests).first)
        let id = try #require(request.header("webhook-id"))
        let timestamp = try #require(request.header("webhook-timestamp"))
        #expect(
            request.header("webhook-signature")
                == signature(secret, id: id, timestamp: timestamp, body: request.body)
        )
    }

    @Test("leased deliveries are sent without a claim, as many as there are credits")
    func handedOver() throws {
        let receiver = try Receiver(Receiver.status("200 OK"))
        let credits = DeliveryCredits()
        let bench = try Bench { $0.credits = credits }
        defer { receiver.stop() }
        // The claim of the start, and what it has said of the places.
        #expect(eventually { credits.isOpen && bench.queue.claimCount > 0 })
        var handed = LeasedDeliveries(leasedUntil: bench.clock.now() + 100_000)
        handed.deliveries = [.example(99, url: "ftp://x/")]
        #expect(credits.reserve(handed.deliveries[0]))
        credits.hand(handed)
        // Its report comes after all that the start claims. The clock stands still, and makes no more claims.
        #expect(take(1, from: bench.queue.tries).map(\.verdict) == [.givenUp])
        let claimCount = bench.queue.claimCount
        let deliveries = (0..<20 as Range<UInt64>).map { Delivery.example($0, url: receiver.url) }
        handed.deliveries = deliveries.filter { credits.reserve($0) }
        #expect(handed.deliveries.count == 16)
        credits.hand(handed)
        let tries = take(16, from: bench.queue.tries)
        #expect(tries.count == 16 && tries.allSatisfy { $0.verdict == .accepted && $0.number == 1 })
        #expect(take(16, from: receiver.requests).count == 16 && bench.queue.claimCount == claimCount)
        bench.sender.stop()
        #expect(!credits.isOpen && !credits.reserve(deliveries[0]))
    }

    @Test("ten silent endpoints of a hundred do not delay the others")
    func dead() throws {
        let (alive, silent, gone) = (
            try Receiver(Receiver.status("200 OK")), try Receiver(.silence), try Receiver(.silence)
        )
        gone.stop()
        // A try takes longer than the test waits.
        let bench = try Bench { ($0.totalTimeout, $0.responseTimeout) = (600_000, 600_000) }
        defer {
            bench.sender.stop(graceSeconds: 0)
            alive.stop()
            silent.stop()
        }
        let secret = try #require(serviceSecret)
        let keys = WebhookKeys(.init(secret: secret, seed: Array(repeating: 1, count: 32)))
        var deliveries: [Delivery] = []
        for number in 0..<100 as Range<UInt64> {
            let url = number < 5 ? silent.url : number < 10 ? gone.url : alive.url
            let endpoint = Delivery.Endpoint(
                id: WebhookID(high: 9, low: number), revision: 1, keys: keys, format: .standard,
                isOrdered: false, retryDelays: [3_600])
            deliveries += (0..<6).map { .example(number * 100 + $0, url: url, endpoint: endpoint) }
        }
        bench.queue.add(deliveries)
        bench.sender.wake()
        var accepted = 0
        var others: [DeliveryTry] = []
        let deadline = monotonicNanoseconds() + 120_000_000_000
        while accepted < 540, monotonicNanoseconds() < deadline {
            for one in take(1, from: bench.queue.tries) {
                if one.verdict == .accepted { accepted += 1 } else { others.append(one) }
            }
        }
        #expect(accepted == 540)
        #expect(others.allSatisfy { $0.error == "could_not_connect" || $0.verdict == .returned })
        // No more of a dead receiver than its window, and what was on its way when it was given up.
        #expect(eventually { bench.sender.metrics.inFlightCount <= 5 * 4 })
    }

    @Test("a failed delivery is retried with the same ID after its delay, not before")
    func repeated() throws {
        let receiver = try Receiver(Receiver.status("500 Internal Server Error"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let first = try #require(bench.deliver([.example(url: receiver.url)]).first)
        #expect(first.status == 500 && first.error == "unacceptable_status")
        #expect(first.verdict == .retry(at: bench.clock.now() + 5))
        bench.clock.advance(4.9)
        bench.sender.wake()
        bench.clock.advance(0.2)
        bench.sender.wake()
        let second = try #require(take(1, from: bench.queue.tries).first)
        #expect(second.number == 2 && second.verdict == .retry(at: bench.clock.now() + 300))
        let requests = take(2, from: receiver.requests)
        #expect(requests.count == 2)
        #expect(requests.first?.header("webhook-id") == requests.last?.header("webhook-id"))
        #expect(requests.first?.header("webhook-timestamp") != requests.last?.header("webhook-timestamp"))
        #expect(requests.first?.body == requests.last?.body)
        #expect(bench.sender.metrics.retryCount == 2)
    }

    @Test("redirects fail, 410 ends the delivery, and 429 waits for Retry-After")
    func statuses() throws {
        let target = try Receiver(Receiver.status("200 OK"))
        let redirecting = try Receiver(
            Receiver.status("307 Temporary Redirect", "Location: \(target.url)\r\n"))
        let gone = try Receiver(Receiver.status("410 Gone"))
        let busy = try Receiver(Receiver.status("429 Too Many Requests", "Retry-After: 77\r\n"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            for receiver in [target, redirecting, gone, busy] { receiver.stop() }
        }
        let tries = bench.deliver([
            .example(1, url: redirecting.url), .example(2, url: gone.url), .example(3, url: busy.url),
        ]).sorted { $0.delivery < $1.delivery }
        try #require(tries.count == 3)
        #expect(tries[0].status == 307 && tries[0].verdict == .retry(at: bench.clock.now() + 5))
        #expect(tries[1].status == 410 && tries[1].verdict == .givenUp)
        #expect(tries[2].status == 429 && tries[2].verdict == .retry(at: bench.clock.now() + 77))
        #expect(target.requests.count == 0)
        #expect(bench.queue.unfinishedCount == 2)
    }

    @Test("timeouts, resets, refused connections and invalid responses have distinct errors")
    func failures() throws {
        let silent = try Receiver(.silence)
        let resetting = try Receiver(.reset)
        let nonsense = try Receiver(.answer("220 mail.example ESMTP\r\n\r\n"))
        let bench = try Bench()
        let impatient = try Bench { $0.totalTimeout = 300 }
        defer {
            bench.sender.stop()
            impatient.sender.stop()
            for receiver in [silent, resetting, nonsense] { receiver.stop() }
        }
        let others = bench.deliver([
            .example(2, url: resetting.url), .example(3, url: nonsense.url),
            .example(4, url: "http://127.0.0.1:\(try FreePort.find())/"),
            .example(5, url: "http://a.invalid:80/"), .example(6, url: "ftp://x/"),
        ]).sorted { $0.delivery < $1.delivery }
        let tries = impatient.deliver([.example(1, url: silent.url)]) + others
        #expect(
            tries.map(\.error) == [
                "timed_out", "connection_lost", "response_invalid", "could_not_connect", "host_not_found",
                "request_invalid",
            ])
        #expect(tries.allSatisfy { $0.status == nil && $0.responseExcerpt == "" })
        #expect(tries.last?.verdict == .givenUp)
    }

    @Test("an address refused by the policy receives no byte")
    func blocked() throws {
        let receiver = try Receiver(Receiver.status("200 OK"))
        let bench = try Bench(allowing: nil)
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let tries = bench.deliver([
            .example(1, url: receiver.url), .example(2, url: "http://localhost:\(receiver.port)/"),
        ])
        #expect(tries.map(\.error) == ["blocked_address", "blocked_address"])
        #expect(receiver.requests.count == 0)
    }

    @Test("a long response is cut to 1 KiB of valid text")
    func longAnswer() throws {
        let body = "x" + String(repeating: "ä", count: 4_000)
        let receiver = try Receiver(
            .answer("HTTP/1.1 500 Oops\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let result = try #require(bench.deliver([.example(url: receiver.url)]).first)
        #expect(result.status == 500)
        #expect(result.responseExcerpt.utf8.count <= 1_024 && result.responseExcerpt.hasPrefix("xäää"))
    }

    @Test("a silent receiver uses at most its window and delays no other")
    func deadReceiver() throws {
        let dead = try Receiver(.silence)
        let alive = try Receiver(Receiver.status("204 No Content"))
        // Longer than the test waits.
        let bench = try Bench { ($0.totalTimeout, $0.responseTimeout) = (600_000, 600_000) }
        defer {
            bench.sender.stop(graceSeconds: 0)
            for receiver in [dead, alive] { receiver.stop() }
        }
        bench.queue.add((0..<400).map { .example($0, url: dead.url) })
        bench.queue.add((400..<600).map { .example($0, url: alive.url) })
        bench.sender.wake()
        let tries = take(200, from: bench.queue.tries)
        #expect(tries.count == 200)
        #expect(tries.allSatisfy { $0.verdict == .accepted })
        #expect(dead.connectionCountMax <= 4)
        #expect(alive.connectionCountMax <= 64)
        // Of a receiver that takes nothing little is claimed.
        #expect(bench.sender.metrics.inFlightCount == 4 && bench.sender.metrics.waitingCount <= 12)
    }

    @Test("a clock set back by a day does not delay deliveries")
    func clockSetBack() throws {
        let receiver = try Receiver(Receiver.status("200 OK"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        #expect(bench.deliver([.example(1, url: receiver.url)]).first?.verdict == .accepted)
        bench.clock.advance(-86_400)
        // Nobody wakes the sender: what is due now was not yet when it looked last.
        bench.queue.add([.example(2, url: receiver.url)])
        #expect(take(1, from: bench.queue.tries).first?.verdict == .accepted)
    }

    @Test("a failing receiver's claimed deliveries are returned without an attempt")
    func leftAlone() throws {
        let failing = try Receiver(Receiver.status("500 Internal Server Error"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            failing.stop()
        }
        bench.queue.add((0..<100).map { .example($0, url: failing.url) })
        bench.sender.wake()
        let tries = take(16, from: bench.queue.tries)
        let tried = tries.filter { $0.verdict != .returned }
        #expect((5...8).contains(tried.count) && tries.count == 16, "a window of four, and one failure each")
        #expect(bench.sender.metrics.returnedCount == Int64(16 - tried.count))
        bench.sender.wake()
        bench.clock.advance(4)
        bench.sender.wake()
        bench.clock.advance(2)
        bench.sender.wake()
        // One tries whether it is back.
        let probe = take(1, from: bench.queue.tries)
        #expect(probe.count == 1 && probe.first?.status == 500)
    }

    @Test("results are recorded in batches, and many wake-ups lead to few claims")
    func batches() throws {
        let receiver = try Receiver(Receiver.status("200 OK"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        bench.queue.add((0..<300).map { .example($0, url: receiver.url) })
        for _ in 0..<1_000 { bench.sender.wake() }
        #expect(take(300, from: bench.queue.tries).count == 300)
        #expect(bench.queue.batches.take().reduce(0, +) == 300)
        #expect(bench.queue.claimCount < 500)
    }

    @Test("stop reports finished requests, cancels slow ones and can be called twice")
    func stopping() throws {
        let silent = try Receiver(.silence)
        let bench = try Bench { ($0.totalTimeout, $0.responseTimeout) = (600_000, 600_000) }
        bench.queue.add([.example(url: silent.url)])
        bench.sender.wake()
        #expect(take(1, from: silent.requests).count == 1)
        let start = monotonicNanoseconds()
        bench.sender.stop(graceSeconds: 0.1)
        bench.sender.stop()
        bench.sender.wake()
        #expect(monotonicNanoseconds() - start < 60_000_000_000)
        #expect(bench.queue.tries.take().isEmpty)
        #expect(bench.queue.unfinishedCount == 1)
        silent.stop()
    }

    @Test("an answer is not recorded with the attempt, and is requested again if not stored")
    func answers() throws {
        let receiver = try Receiver(
            .answer("HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"password\":\"hush-hush\"}"))
        let isAway = Mutex(true)
        let taken = Mailbox<[UInt8]>()
        let bench = try Bench { configuration in
            configuration.takeAnswer = { _, body, done in
                taken.send(body)
                done(isAway.withLock { !$0 })
            }
        }
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let first = try #require(
            bench.deliver([.example(url: receiver.url, type: "job.challenge")]).first)
        #expect(
            first.verdict != .accepted && first.error == "internal_error" && first.responseExcerpt.isEmpty)
        isAway.withLock { $0 = false }
        bench.clock.advance(60)
        bench.sender.wake()
        let second = try #require(take(1, from: bench.queue.tries).first)
        #expect(second.verdict == .accepted && second.status == 200 && second.responseExcerpt.isEmpty)
        #expect(taken.take().count == 2)
    }

    @Test("an incomplete answer is requested again; without a question the status is enough")
    func brokenAnswer() throws {
        let receiver = try Receiver(
            .answer("HTTP/1.1 200 OK\r\nContent-Length: 60\r\nConnection: close\r\n\r\n{\"disposition\":"))
        let taken = Mailbox<[UInt8]>()
        let bench = try Bench { configuration in
            configuration.takeAnswer = { _, body, done in
                taken.send(body)
                done(true)
            }
        }
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let tries = bench.deliver([
            .example(1, url: receiver.url, type: "job.will_begin"), .example(2, url: receiver.url),
        ])
        let byDelivery = Dictionary(grouping: tries) { $0.delivery.low }.compactMapValues(\.first)
        #expect(byDelivery[1]?.verdict != .accepted && byDelivery[1]?.error == "connection_lost")
        #expect(byDelivery[2]?.verdict == .accepted && taken.take().isEmpty)
    }

    @Test("an unsignable delivery records its error; one to a removed endpoint is given up")
    func obstacles() throws {
        let receiver = try Receiver(Receiver.status("200 OK"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        var sealed = Delivery.example(1, url: receiver.url)
        sealed.obstacle = .secretUnreadable
        var orphaned = Delivery.example(2, url: receiver.url)
        orphaned.obstacle = .endpointGone
        let tries = bench.deliver([sealed, orphaned, .example(3, url: receiver.url)])
        let byDelivery = Dictionary(grouping: tries) { $0.delivery.low }.compactMapValues(\.first)
        #expect(byDelivery[1]?.error == "secret_unreadable" && byDelivery[1]?.verdict != .givenUp)
        #expect(byDelivery[2]?.error == "endpoint_gone" && byDelivery[2]?.verdict == .givenUp)
        #expect(byDelivery[3]?.verdict == .accepted)
        #expect(take(1, from: receiver.requests).count == 1 && receiver.requests.take().isEmpty)
    }
}
