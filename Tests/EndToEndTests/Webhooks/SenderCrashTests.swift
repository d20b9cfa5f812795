import Curl
import FerryCore
import Postgres
import Synchronization
import TestSupport
import TestThreads
import Testing

/// What a sender is doing when it is killed.
enum SendingStep: String, CaseIterable, Sendable {
    /// The relay has not made the deliveries; the jobs are over.
    case unmade
    /// A try has failed, and the next one is not claimed yet.
    case unclaimed
    /// Claimed, but the receiver has as many at once as it may have.
    case claimed
    /// The receiver has accepted the connection and reads nothing.
    case connected
    /// It has read the head of the request.
    case halfRead
    /// It has read everything and does not answer.
    case read
    /// Its answer stops in the middle of the status line.
    case halfAnswered
    /// It has answered just now.
    case answered
    /// The answer is recorded.
    case recorded
}

/// A receiver that stops every delivery at one step until it is opened, and accepts them from then on.
private final class SteppingReceiver: Sendable {
    struct Arrival: Sendable {
        let path: String
        let id: String
        let body: [UInt8]
        var sequence: Int64 { (try? JSON.parse(body))?["data"]?["sequence"]?.integer ?? 0 }
    }

    /// Requests that were read to their end.
    let arrivals = Signal<Arrival>()
    let reached = Signal<Void>()
    private let gate: Gate
    private let presence: Presence
    private let origin: ScriptedOrigin
    var url: String { origin.url }
    /// Whether all connections that were accepted have ended.
    var isIdle: Bool { presence.isEmpty }

    /// Connections that are being served.
    private final class Presence: Sendable {
        private let count = Atomic(0)
        var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }
        func come() { count.add(1, ordering: .sequentiallyConsistent) }
        func go() { count.subtract(1, ordering: .sequentiallyConsistent) }
    }

    init(_ step: SendingStep) throws {
        let (arrivals, reached, gate, presence) = (arrivals, reached, Gate(), Presence())
        self.gate = gate
        self.presence = presence
        origin = try ScriptedOrigin { connection in
            presence.come()
            defer { presence.go() }
            /// Says that the step is reached, and waits there.
            func stays() -> Bool {
                guard !gate.pass(seconds: 0) else { return false }
                reached.fire(())
                _ = gate.pass()
                return true
            }
            if step == .connected, stays() { return }
            while let request = connection.readRequest() {
                if step == .halfRead, stays() { return }
                let body = connection.readBody(of: request)
                // The sender was killed in the middle of it.
                guard body.count == request.header("content-length").flatMap({ Int($0) }) else { return }
                arrivals.fire(
                    Arrival(path: request.path, id: request.header("webhook-id") ?? "", body: body))
                if step == .read || step == .claimed, stays() { return }
                if step == .unclaimed, !gate.pass(seconds: 0) {
                    guard connection.send("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n") else { return }
                    continue
                }
                if step == .halfAnswered, !gate.pass(seconds: 0) {
                    connection.send("HTTP/1.1 2")
                    _ = stays()
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

@Suite("The sender is killed", .onOwnThread)
struct SenderCrashTests {
    private static let jobCount = 8
    private static let paths = ["/own", "/plain", "/ordered"]

    @Test(
        "at every step of a delivery: each event arrives all the same, soon, with its identifier, in order",
        arguments: SendingStep.allCases)
    func steps(_ step: SendingStep) throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let receiver = try SteppingReceiver(step)
        defer { receiver.stop() }
        let origin = try WebhookReceiver()
        defer { origin.stop() }
        // As many as there may be: what is refused is not given up however long the test takes.
        let more = String(repeating: ",1", count: 29)
        for path in Self.paths.dropFirst() {
            let made = try ferry.call(
                "POST", "/v1/webhooks",
                #"{"url":"\#(receiver.url)\#(path)","events":["job.succeeded"],"#
                    + #""ordered":\#(path == "/ordered"),"retry":{"delays":[1\#(more)]}}"#)
            #expect(made.status == 201)
        }
        var connection = try Connection(url: database.url)
        if step == .unmade { try lock(&connection) }
        let job =
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"#
            + #""webhook":{"url":"\#(receiver.url)/own","events":["job.succeeded"]}}"#
        let batch = Array(repeating: job, count: Self.jobCount).joined(separator: ",")
        let ids = try ferry.submitBatch(#"{"jobs":[\#(batch)]}"#)
        try reach(step, ids, ferry, receiver, &connection)
        ferry.kill9()
        if step == .unmade || step == .unclaimed { try connection.execute(script: "ROLLBACK") }
        receiver.open()
        // What the dead one has sent comes before what the next one sends.
        #expect(eventually { receiver.isIdle })
        let before = receiver.arrivals.wait(for: .max, seconds: 0)
        let heldCount = try heldCount(&connection)
        try ferry.start()
        // Nothing waits for the end of a lease, which would leave no such try.
        let lost = "delivery_tries WHERE error = 'sender_lost'"
        try wait(&connection) { try count(lost, &$0) >= heldCount }
        var deliveries: [JSON] = []
        let areAccepted = becomes {
            deliveries = try ids.flatMap {
                try ferry.json("GET", "/v1/jobs/\($0)/deliveries")["data"]?.array ?? []
            }
            return deliveries.count == Self.jobCount * Self.paths.count
                && deliveries.allSatisfy { $0["state"]?.string == "accepted" }
        }
        #expect(areAccepted, "\(deliveries)")
        let after = receiver.arrivals.wait(for: .max, seconds: 0)
        if step == .recorded { #expect(after.isEmpty) }
        check(before + after)
        for delivery in deliveries { check(tries: delivery["tries"]?.array ?? [], step) }
    }

    /// Nobody adds or changes deliveries until the end of the transaction.
    private func lock(_ connection: inout Connection) throws {
        try connection.execute(script: "BEGIN; LOCK TABLE deliveries IN SHARE MODE")
    }

    private func count(_ query: String, _ connection: inout Connection) throws -> Int64 {
        let statement = Statement("count", "SELECT count(*) FROM \(query)", usesCustomPlan: true)
        return try connection.execute(statement).int64(0, 0)
    }

    /// What the dead sender still has, once the server has ended the last of its statements.
    private func heldCount(_ connection: inout Connection) throws -> Int64 {
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
        case .unmade:
            for id in ids { #expect(try ferry.finished(id)["state"]?.string == "succeeded") }
            #expect(try count("deliveries", &connection) == 0)
        case .unclaimed:
            // Something of every lane has failed, and waits for its next try.
            let tried = "(SELECT FROM deliveries WHERE tries > 0 AND node IS NULL GROUP BY lane) l"
            try wait(&connection) { try count(tried, &$0) == 3 }
            try lock(&connection)
            let waiting = "pg_locks WHERE NOT granted AND relation = 'deliveries'::regclass"
            try wait(&connection) { try count(waiting, &$0) > 0 }
        case .claimed:
            // Four requests to each of two receivers, and one in order.
            try wait(&connection) { try count("deliveries WHERE node IS NOT NULL", &$0) > 9 }
            #expect(receiver.reached.wait().count <= 9)
        case .recorded:
            try wait(&connection) { try count("deliveries WHERE state = 'accepted'", &$0) == 24 }
        case .connected, .halfRead, .read, .halfAnswered, .answered:
            #expect(!receiver.reached.wait().isEmpty)
        }
    }

    private func check(_ arrivals: [SteppingReceiver.Arrival]) {
        for path in Self.paths {
            let some = arrivals.filter { $0.path == path }
            var bodies: [String: Set<[UInt8]>] = [:]
            for arrival in some { bodies[arrival.id, default: []].insert(arrival.body) }
            #expect(bodies.count == Self.jobCount, "\(path)")
            #expect(bodies.values.allSatisfy { $0.count == 1 }, "\(path)")
            guard path == "/ordered" else { continue }
            // Repetitions of one event follow each other; none comes before the one before it is done.
            let sequences = some.map(\.sequence)
            #expect(sequences == sequences.sorted())
        }
    }

    /// Each try is there, the last one is the accepted one, and a lost one says so. On a busy machine the
    /// sender may have given one up before it was killed.
    private func check(tries: [JSON], _ step: SendingStep) {
        #expect(tries.compactMap { $0["number"]?.integer } == (1...Int64(max(1, tries.count))).map { $0 })
        #expect(tries.last?["status"]?.integer == 204, "\(tries)")
        for one in tries.dropLast() {
            let isLost =
                ["sender_lost", "timed_out"].contains(one["error"]?.string) && one["status"] == .null
            #expect(isLost || (step == .unclaimed && one["status"]?.integer == 500), "\(tries)")
        }
    }

    @Test("before the request is sent: an endpoint whose handshake hangs gets everything at its new address")
    func handshake() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let gate = Gate()
        let greeted = Signal<Int>()
        let silent = try ScriptedOrigin { connection in
            greeted.fire(connection.read(1).count)
            _ = gate.pass()
        }
        defer {
            gate.open()
            silent.stop()
        }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let made = try ferry.json(
            "POST", "/v1/webhooks",
            #"{"url":"https://127.0.0.1:\#(silent.port)/hook","events":["job.succeeded"],"#
                + #""retry":{"delays":[1,1,1]}}"#)
        let id = try ferry.submit(#"{"kind":"data","request":{"url":"\#(receiver.url)/"}}"#)
        #expect(greeted.wait().first == 1)
        let before = try ferry.json("GET", "/v1/jobs/\(id)/deliveries")["data"]?.array?.first
        ferry.kill9()
        try ferry.start()
        let path = "/v1/webhooks/\(made["id"]?.string ?? "")"
        let patch = #"{"url":"\#(receiver.url)/hook"}"#
        #expect(try ferry.call("PATCH", path, patch).status == 200)
        gate.open()
        let arrivals = receiver.deliveries.wait(for: 2)
        #expect(arrivals.last?.path == "/hook" && arrivals.last?.id == before?["event"]?.string)
    }

    @Test("a lost node's deliveries are due again when its lease is over")
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
        let arrivals = receiver.arrivals.wait(for: 2)
        #expect(arrivals.count == 2 && Set(arrivals.map(\.id)).count == 1)
        #expect(Set(arrivals.map(\.body)).count == 1)
    }
}
