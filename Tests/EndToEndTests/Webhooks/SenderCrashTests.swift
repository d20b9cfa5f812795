import Curl
import FerryCore
import Postgres
import Synchronization
import TestSupport
import TestThreads
import Testing

/// Step of a delivery at which the sender is killed.
enum SendingStep: String, CaseIterable, Sendable {
    /// The jobs have ended, and the relay has not created the deliveries.
    case notCreated
    /// A try has failed, and the next one is not claimed.
    case notClaimed
    /// Deliveries are claimed, and the receiver already has its maximum of concurrent requests.
    case claimed
    /// The receiver has accepted the connection and reads nothing.
    case connected
    /// The receiver has read the head of the request.
    case halfRead
    /// The receiver has read the request and does not respond.
    case read
    /// The receiver's response stops in the middle of the status line.
    case halfResponded
    /// The receiver has responded.
    case responded
    /// The response is stored.
    case recorded
}

/// A receiver that stops every delivery at one step until `open()`, and then accepts deliveries.
private final class SteppingReceiver: Sendable {
    struct ReceivedRequest: Sendable {
        let path: String
        let id: String
        let body: [UInt8]
        var sequence: Int64 { (try? JSON.parse(body))?["data"]?["sequence"]?.integer ?? 0 }
    }

    /// Fires with each request that was read completely.
    let requests = Signal<ReceivedRequest>()
    let reached = Signal<Void>()
    private let gate: Gate
    private let openConnections: OpenConnections
    private let origin: ScriptedOrigin
    var url: String { origin.url }
    /// `true` if all accepted connections have ended.
    var isIdle: Bool { openConnections.isEmpty }

    /// Number of open connections.
    private final class OpenConnections: Sendable {
        private let count = Atomic(0)
        var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }
        func add() { count.add(1, ordering: .sequentiallyConsistent) }
        func remove() { count.subtract(1, ordering: .sequentiallyConsistent) }
    }

    init(_ step: SendingStep) throws {
        let (requests, reached, gate, openConnections) = (requests, reached, Gate(), OpenConnections())
        self.gate = gate
        self.openConnections = openConnections
        origin = try ScriptedOrigin { connection in
            openConnections.add()
            defer { openConnections.remove() }
            /// Fires `reached` and waits for the gate. Returns `false` if the gate was already open.
            func pause() -> Bool {
                guard !gate.pass(seconds: 0) else { return false }
                reached.fire(())
                _ = gate.pass()
                return true
            }
            if step == .connected, pause() { return }
            while let request = connection.readRequest() {
                if step == .halfRead, pause() { return }
                let body = connection.readBody(of: request)
                // The sender was killed while it sent the body.
                guard body.count == request.header("content-length").flatMap({ Int($0) }) else { return }
                requests.fire(
                    ReceivedRequest(path: request.path, id: request.header("webhook-id") ?? "", body: body))
                if step == .read || step == .claimed, pause() { return }
                if step == .notClaimed, !gate.pass(seconds: 0) {
                    guard connection.send("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n") else { return }
                    continue
                }
                if step == .halfResponded, !gate.pass(seconds: 0) {
                    connection.send("HTTP/1.1 2")
                    _ = pause()
                    return
                }
                guard connection.send("HTTP/1.1 204 X\r\nContent-Length: 0\r\n\r\n") else { return }
                reached.fire(())
            }
        }
    }

    func open() { gate.open() }

    func stop() {
        gate.open()
        origin.stop()
    }
}

@Suite("Crashes of the sender", .onOwnThread)
struct SenderCrashTests {
    private static let jobCount = 8
    private static let paths = ["/own", "/plain", "/ordered"]

    @Test(
        "after kill -9 at any step, each event is delivered with its id, and in order if required",
        arguments: SendingStep.allCases)
    func steps(_ step: SendingStep) throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let receiver = try SteppingReceiver(step)
        defer { receiver.stop() }
        let origin = try WebhookReceiver()
        defer { origin.stop() }
        // The maximum of retries, so that no delivery is given up, however long the test takes.
        let more = String(repeating: ",1", count: 29)
        for path in Self.paths.dropFirst() {
            let created = try ferry.call(
                "POST", "/v1/webhooks",
                #"{"url":"\#(receiver.url)\#(path)","events":["job.succeeded"],"#
                    + #""ordered":\#(path == "/ordered"),"retry":{"delays":[1\#(more)]}}"#)
            #expect(created.status == 201)
        }
        var connection = try Connection(url: database.url)
        if step == .notCreated { try lock(&connection) }
        let job =
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"#
            + #""webhook":{"url":"\#(receiver.url)/own","events":["job.succeeded"]}}"#
        let batch = Array(repeating: job, count: Self.jobCount).joined(separator: ",")
        let ids = try ferry.submitBatch(#"{"jobs":[\#(batch)]}"#)
        try reach(step, ids, ferry, receiver, &connection)
        ferry.kill9()
        if step == .notCreated || step == .notClaimed { try connection.execute(script: "ROLLBACK") }
        receiver.open()
        // Requests of the killed sender are read before those of the next one.
        #expect(eventually { receiver.isIdle })
        let before = receiver.requests.wait(for: .max, seconds: 0)
        let leasedCount = try leasedCount(&connection)
        try ferry.start()
        // The next sender records each leased delivery's try as sender_lost at once. If it waited for the
        // lease to expire, there would be no such try.
        let lost = "delivery_tries WHERE error = 'sender_lost'"
        try wait(&connection) { try count(lost, &$0) >= leasedCount }
        var deliveries: [JSON] = []
        let areAccepted = becomes {
            deliveries = try ids.flatMap {
                try ferry.json("GET", "/v1/jobs/\($0)/deliveries")["data"]?.array ?? []
            }
            return deliveries.count == Self.jobCount * Self.paths.count
                && deliveries.allSatisfy { $0["state"]?.string == "accepted" }
        }
        #expect(areAccepted, "\(deliveries)")
        let after = receiver.requests.wait(for: .max, seconds: 0)
        if step == .recorded { #expect(after.isEmpty) }
        check(before + after)
        for delivery in deliveries { check(tries: delivery["tries"]?.array ?? [], step) }
    }

    /// Blocks all changes of deliveries until the end of the transaction.
    private func lock(_ connection: inout Connection) throws {
        try connection.execute(script: "BEGIN; LOCK TABLE deliveries IN SHARE MODE")
    }

    private func count(_ query: String, _ connection: inout Connection) throws -> Int64 {
        let statement = Statement("count", "SELECT count(*) FROM \(query)", usesCustomPlan: true)
        return try connection.execute(statement).int64(0, 0)
    }

    /// Waits until PostgreSQL has ended the killed sender's connections. Returns the number of deliveries
    /// that it has leased.
    private func leasedCount(_ connection: inout Connection) throws -> Int64 {
        let others =
            "pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' "
            + "AND pid <> pg_backend_pid()"
        try wait(&connection) { try count(others, &$0) == 0 }
        return try count(
            "deliveries WHERE node IS NOT NULL AND state = 'pending' AND next_try_at > now()", &connection)
    }

    private func wait(
        _ connection: inout Connection, until condition: (inout Connection) throws -> Bool
    ) throws {
        let isReached = becomes { try condition(&connection) }
        try #require(isReached)
    }

    private func reach(
        _ step: SendingStep, _ ids: [String], _ ferry: FerryProcess, _ receiver: SteppingReceiver,
        _ connection: inout Connection
    ) throws {
        switch step {
        case .notCreated:
            for id in ids { #expect(try ferry.finished(id)["state"]?.string == "succeeded") }
            #expect(try count("deliveries", &connection) == 0)
        case .notClaimed:
            // A delivery of each of the three receiver queues has failed and waits for its next try.
            let tried = "(SELECT FROM deliveries WHERE tries > 0 AND node IS NULL GROUP BY receiver) l"
            try wait(&connection) { try count(tried, &$0) == 3 }
            try lock(&connection)
            let waiting = "pg_locks WHERE NOT granted AND relation = 'deliveries'::regclass"
            try wait(&connection) { try count(waiting, &$0) > 0 }
        case .claimed:
            // At most four requests to each of two receivers, and one to the ordered receiver.
            try wait(&connection) { try count("deliveries WHERE node IS NOT NULL", &$0) > 9 }
            #expect(receiver.reached.wait().count <= 9)
        case .recorded:
            try wait(&connection) { try count("deliveries WHERE state = 'accepted'", &$0) == 24 }
        case .connected, .halfRead, .read, .halfResponded, .responded:
            #expect(!receiver.reached.wait().isEmpty)
        }
    }

    private func check(_ requests: [SteppingReceiver.ReceivedRequest]) {
        for path in Self.paths {
            let requestsOfPath = requests.filter { $0.path == path }
            var bodies: [String: Set<[UInt8]>] = [:]
            for request in requestsOfPath { bodies[request.id, default: []].insert(request.body) }
            #expect(bodies.count == Self.jobCount, "\(path)")
            #expect(bodies.values.allSatisfy { $0.count == 1 }, "\(path)")
            guard path == "/ordered" else { continue }
            // No event comes before its predecessor is accepted. The node that starts after the kill repeats
            // the events whose acceptance was not stored, in order: the sequence falls at most once.
            let sequences = requestsOfPath.map(\.sequence)
            var seen: Set<Int64> = []
            let first = sequences.filter { seen.insert($0).inserted }
            #expect(first == first.sorted(), "\(sequences)")
            let falls = zip(sequences, sequences.dropFirst()).count { $1 < $0 }
            #expect(falls <= 1, "\(sequences)")
        }
    }

    /// Expects that all tries are listed, that the last one was accepted, and that lost ones have their
    /// error. On a busy machine a try may have timed out before the kill.
    private func check(tries: [JSON], _ step: SendingStep) {
        #expect(tries.compactMap { $0["number"]?.integer } == (1...Int64(max(1, tries.count))).map { $0 })
        #expect(tries.last?["status"]?.integer == 204, "\(tries)")
        for one in tries.dropLast() {
            let isLost =
                ["sender_lost", "timed_out"].contains(one["error"]?.string) && one["status"] == .null
            #expect(isLost || (step == .notClaimed && one["status"]?.integer == 500), "\(tries)")
        }
    }

    @Test("a delivery killed during the TLS handshake goes to the endpoint's changed URL")
    func handshake() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let gate = Gate()
        let handshakes = Signal<Int>()
        let silent = try ScriptedOrigin { connection in
            handshakes.fire(connection.read(1).count)
            _ = gate.pass()
        }
        defer {
            gate.open()
            silent.stop()
        }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let created = try ferry.json(
            "POST", "/v1/webhooks",
            #"{"url":"https://127.0.0.1:\#(silent.port)/hook","events":["job.succeeded"],"#
                + #""retry":{"delays":[1,1,1]}}"#)
        let id = try ferry.submit(#"{"kind":"data","request":{"url":"\#(receiver.url)/"}}"#)
        #expect(handshakes.wait().first == 1)
        let before = try ferry.json("GET", "/v1/jobs/\(id)/deliveries")["data"]?.array?.first
        ferry.kill9()
        try ferry.start()
        let path = "/v1/webhooks/\(created["id"]?.string ?? "")"
        let patch = #"{"url":"\#(receiver.url)/hook"}"#
        #expect(try ferry.call("PATCH", path, patch).status == 200)
        gate.open()
        let requests = receiver.deliveries.wait(for: 2)
        #expect(requests.last?.path == "/hook" && requests.last?.id == before?["event"]?.string)
    }

    @Test("the deliveries of a dead node are sent again after its lease has expired")
    func lostNode() throws {
        let database = try TestDatabase()
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
        ]
        let other = try FerryProcess(settings.merging(["FERRY_ROLES": "api"]) { $1 })
        defer { other.remove() }
        let sender = try FerryProcess(settings)
        defer { sender.remove() }
        let receiver = try SteppingReceiver(.read)
        defer { receiver.stop() }
        let origin = try WebhookReceiver()
        defer { origin.stop() }
        let id = try sender.submit(
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"webhook":{"url":"\#(receiver.url)/own"}}"#)
        #expect(!receiver.reached.wait().isEmpty)
        sender.kill9()
        receiver.open()
        func delivery() throws -> JSON? {
            try other.json("GET", "/v1/jobs/\(id)/deliveries")["data"]?.array?.first
        }
        func errors() throws -> [String?] {
            try delivery()?["tries"]?.array?.map { $0["error"]?.string } ?? []
        }
        #expect(becomes { try errors() == ["sender_lost"] })
        try sender.start()
        #expect(becomes { try delivery()?["state"]?.string == "accepted" })
        #expect(try errors() == ["sender_lost", nil])
        let requests = receiver.requests.wait(for: 2)
        #expect(requests.count == 2 && Set(requests.map(\.id)).count == 1)
        #expect(Set(requests.map(\.body)).count == 1)
    }
}
