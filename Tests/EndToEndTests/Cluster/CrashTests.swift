import Curl
import FerryCore
import Glibc
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Crashes and restarts lose no jobs", .onOwnThread)
struct CrashTests {
    @Test("after kill -9 during 1,000 transfers each job succeeds once and each file is complete")
    func killedWhileTransferring() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "32", "FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 300, trickles: true)
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let ids = try ferry.submitBatch(origin.batch(0..<1000, webhook: receiver.url))
        #expect(ids.count == 1000)
        // All 32 running transfers are paused in the middle.
        #expect(origin.stopped.wait(for: 32, seconds: 240).count >= 32)
        let before = receiver.deliveries.wait(for: 300, seconds: 240)
        #expect(becomes { try ferry.json("GET", "/v1/admin/status")["webhooks"]?["pending"]?.integer == 0 })
        ferry.kill9()
        let published = names(in: ferry.files + "/f").filter { !$0.hasPrefix(".") }
        #expect(published.count <= 300)
        for name in published {
            #expect(readFile("\(ferry.files)/f/\(name)") == HalfwayOrigin.bytes(Int(name) ?? -1))
        }
        origin.open()
        try ferry.start()
        #expect(becomes(seconds: 240) { try ferry.unfinishedCount() == 0 })
        try expectAllComplete(ferry, ids)
        let deliveries = before + receiver.deliveries.wait(for: 1000 - before.count, seconds: 240)
        #expect(deliveries.count == 1000 && Set(deliveries.map(\.id)).count == 1000)
        #expect(Set(deliveries.compactMap { $0.job?["id"]?.string }) == Set(ids), "each job has one delivery")
    }

    @Test("a crash and restart of the database loses no job; submissions get 503 meanwhile")
    func databaseRestarts() throws {
        let server = try TestServer()
        defer { server.remove() }
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "32", "FERRY_DATABASE_URL": server.url()])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 100, trickles: true)
        defer { origin.stop() }
        let ids = try ferry.submitBatch(origin.batch(0..<300))
        #expect(origin.stopped.wait(for: 32, seconds: 240).count >= 32)
        server.stop(SIGQUIT)
        #expect(try ferry.call("GET", "/livez").status == 200)
        let refused = Signal<String>()
        let body = #"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#
        let thread = Thread(name: "refused") {
            let response = try? ferry.call("POST", "/v1/jobs", body)
            refused.fire("\(response?.status ?? 0) \(response?.header("content-type") ?? "")")
        }
        origin.open()
        // Running and prefetched jobs finish without the database; their results wait.
        let published = { names(in: ferry.files + "/f").filter { !$0.hasPrefix(".") } }
        #expect(becomes { published().count >= 132 }, "\(published().count)")
        // A submission waits for the database before the node rejects it.
        #expect(refused.wait(seconds: 60) == ["503 application/problem+json"])
        thread.join()
        #expect(becomes { try ferry.call("GET", "/readyz").status == 503 })
        try server.start()
        #expect(becomes(seconds: 240) { try ferry.unfinishedCount() == 0 })
        // Each thread reconnects on its own schedule; the heartbeat may be the last.
        #expect(becomes { try ferry.call("GET", "/readyz").status == 200 })
        try expectAllComplete(ferry, ids)
    }

    @Test("a restarted node reclaims its own leases immediately")
    func ownJobs() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess([
            "FERRY_CONCURRENCY": "4", "FERRY_DATABASE_URL": database.url, "FERRY_LOG_LEVEL": "notice",
        ])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let ids = try ferry.submitBatch(origin.batch(0..<4))
        #expect(origin.stopped.wait(for: 4).count == 4)
        ferry.kill9()
        try ferry.start()
        #expect(Set(origin.stopped.wait(for: 4)) == Set(0..<4))
        #expect(!ferry.log.contains(deadNodeMessage), "the jobs were requeued as those of a dead node")
        origin.open()
        for id in ids { #expect(try ferry.finished(id)["attempt"]?.integer == 2) }
        try expectAllComplete(ferry, ids)
    }

    /// Returns an origin that responds when the gate is open.
    private static func gatedOrigin(_ arrived: Signal<Void>, _ gate: Gate) throws -> ScriptedOrigin {
        try .answering { _, _ in
            arrived.fire(())
            _ = gate.pass()
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
    }

    @Test("results of a node that stops without database are committed at its next start")
    func endsWithoutDatabase() throws {
        let server = try TestServer()
        defer { server.remove() }
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": server.url()])
        defer { ferry.remove() }
        let (arrived, gate) = (Signal<Void>(), Gate())
        let origin = try Self.gatedOrigin(arrived, gate)
        defer { origin.stop() }
        defer { gate.open() }
        let ids = try [
            #"{"kind":"upload","request":{"url":"\#(origin.url)/a","method":"POST"},"source":{"text":"x"}}"#,
            #"{"kind":"download","request":{"url":"\#(origin.url)/b"},"#
                + #""destination":{"path":"b","if_exists":"fail"}}"#,
            #"{"kind":"data","request":{"url":"\#(origin.url)/c"}}"#,
        ].map { try ferry.submit($0) }
        #expect(arrived.wait(for: 3).count == 3)
        server.stop()
        gate.open()
        #expect(becomes { names(in: ferry.files).contains("b") })
        #expect(ferry.terminate() == 0)
        try server.start()
        try ferry.start()
        for id in ids {
            let job = try ferry.finished(id)
            #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 1, "\(job)")
        }
        let body = try ferry.call("GET", "/v1/jobs/\(ids[2])/content").body
        #expect(body == Array("ok".utf8))
        #expect(origin.requests.count == 3, "no request is repeated")
        #expect(becomes { names(in: ferry.files) == ["b"] })
    }

    @Test("a running POST without retry.non_idempotent fails after a crash and is not repeated")
    func crashedPost() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let arrived = Signal<Void>()
        let gate = Gate()
        let origin = try Self.gatedOrigin(arrived, gate)
        defer { origin.stop() }
        defer { gate.open() }
        let ids = try [("POST", false), ("POST", true), ("PUT", false)].map { method, allows in
            try ferry.submit(
                #"{"kind":"upload","request":{"url":"\#(origin.url)/\#(allows)","method":"\#(method)"},"#
                    + #""source":{"text":"x"},"retry":{"non_idempotent":\#(allows)}}"#)
        }
        #expect(arrived.wait(for: 3).count == 3)
        ferry.kill9()
        gate.open()
        try ferry.start()
        let jobs = try ids.map { try ferry.finished($0) }
        #expect(jobs.map { $0["state"]?.string } == ["failed", "succeeded", "succeeded"], "\(jobs)")
        #expect(jobs[0]["error"]?["code"]?.string == "request_not_repeatable")
        #expect(origin.requests.filter { $0.method == "POST" && $0.path == "/false" }.count == 1)
    }

    @Test(
        "jobs and keys survive kill -9 of Ferry and of the private PostgreSQL, which ends with Ferry"
    )
    func privatePostgreSQLRestarts() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let body = #"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#
        let submit = { try ferry.call("POST", "/v1/jobs", body, headers: ["Idempotency-Key": "\"one\""]) }
        let first = try submit().json
        let id = try #require(first["id"]?.string)
        let job = try ferry.finished(id)
        #expect(job["state"]?.string == "succeeded")
        ferry.kill9()
        try ferry.start()
        #expect(try ferry.json("GET", "/v1/jobs/\(id)") == job)
        let again = try submit()
        #expect(try again.status == 201 && again.json["id"]?.string == id)
        #expect(again.header("idempotency-replayed") == "true" && origin.requests.count == 1)
        let postmaster = { () -> pid_t? in
            let file = readFile(ferry.directory + "/postgres/postmaster.pid")
            let line = String(decoding: file ?? [], as: UTF8.self).split(separator: "\n").first
            return line.flatMap { pid_t($0) }
        }
        let killed = try #require(postmaster())
        kill(killed, SIGKILL)
        #expect(becomes { try postmaster() != killed && submit().status == 201 })
        #expect(try ferry.json("GET", "/v1/jobs/\(id)") == job)
        let last = try #require(postmaster())
        #expect(ferry.terminate() == 0)
        #expect(kill(last, 0) != 0, "the private PostgreSQL still runs")
    }

    @Test(
        "a signal drains a node: running jobs finish, queued jobs stay queued, the exit status is 0",
        arguments: [SIGTERM, SIGHUP])
    func drain(signal: Int32) throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess([
            "FERRY_CONCURRENCY": "1", "FERRY_DATABASE_URL": database.url, "FERRY_DRAIN_SECONDS": "600",
        ])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        let ids = try ferry.submitBatch(origin.batch(0..<2))
        #expect(origin.stopped.wait() == [0])
        ferry.send(signal)
        #expect(becomes { try ferry.call("GET", "/readyz").status == 503 })
        // When a terminal closes, the kernel and the shell each send SIGHUP.
        if signal == SIGHUP { ferry.send(SIGHUP) }
        // The row of the node shows `draining` before the node stops leasing.
        #expect(
            becomes {
                let nodes = try ferry.json("GET", "/v1/admin/nodes")["data"]?.array
                return nodes?.first?["draining"]?.bool == true
            })
        origin.open()
        #expect(ferry.wait() == 0)
        #expect(readFile(ferry.files + "/f/0") == HalfwayOrigin.bytes(0))
        #expect(origin.requestCount == 1)
        try ferry.start()
        #expect(try ferry.finished(ids[1])["state"]?.string == "succeeded")
        try expectAllComplete(ferry, ids)
        let begin = monotonicNanoseconds()
        #expect(ferry.terminate() == 0)
        #expect(monotonicNanoseconds() - begin < 60_000_000_000, "an idle node takes long to end")
    }

    @Test("a node started by nohup ignores SIGHUP")
    func ignoredSignal() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 1)
        defer { origin.stop() }
        #expect(ferry.terminate() == 0)
        try ferry.start(launcher: ["/usr/bin/nohup"])
        ferry.send(SIGHUP)
        let ids = try ferry.submitBatch(origin.batch(0..<1))
        #expect(try ferry.finished(ids[0])["state"]?.string == "succeeded")
        #expect(try ferry.call("GET", "/readyz").status == 200)
        #expect(ferry.terminate() == 0)
    }

    @Test("deliveries that a receiver refused arrive later with the same ids, also after a crash")
    func refusedDeliveries() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 1_000)
        defer { origin.stop() }
        let known = Mutex<Set<String>>([])
        let refused = Signal<String>()
        // Refuses at most as many deliveries as are tried at once, and each only once: after a second failure
        // the next try is minutes away.
        let receiver = try WebhookReceiver { delivery in
            let isRefused = known.withLock { known in
                let isNew = known.insert(delivery.id).inserted
                return isNew && known.count <= 4
            }
            guard isRefused else { return 204 }
            refused.fire(delivery.id)
            return 503
        }
        defer { receiver.stop() }
        let ids = try ferry.submitBatch(origin.batch(0..<20, webhook: receiver.url))
        var deliveries = receiver.deliveries.wait(for: 1, seconds: 60)
        ferry.kill9()
        try ferry.start()
        // Deliveries that the killed process was sending are sent again when their lease has expired.
        #expect(
            becomes(seconds: 120) {
                deliveries += receiver.deliveries.wait(seconds: 1)
                guard Set(deliveries.compactMap { $0.job?["id"]?.string }) == Set(ids) else { return false }
                return try ferry.json("GET", "/v1/admin/status")["webhooks"]?["pending"]?.integer == 0
            })
        deliveries += receiver.deliveries.wait(seconds: 0)
        #expect(Set(deliveries.compactMap { $0.job?["id"]?.string }) == Set(ids))
        #expect(Set(deliveries.map(\.id)).count == 20)
        let refusedIDs = refused.wait()
        #expect(!refusedIDs.isEmpty)
        for id in refusedIDs { #expect(deliveries.count { $0.id == id } >= 2) }
        #expect(try deliveries.allSatisfy { try $0.isSigned(by: webhookSecret) })
    }

    /// Expects that every job succeeded, every file has its exact bytes, and no other file exists.
    private func expectAllComplete(_ ferry: FerryProcess, _ ids: [String]) throws {
        let jobs = try ferry.allJobs()
        #expect(Set(jobs.compactMap { $0["id"]?.string }) == Set(ids) && jobs.count == ids.count)
        for job in jobs { #expect(job["state"]?.string == "succeeded", "\(job)") }
        for number in ids.indices {
            #expect(readFile("\(ferry.files)/f/\(number)") == HalfwayOrigin.bytes(number), "file \(number)")
        }
        let expected = Set(ids.indices.map(String.init))
        #expect(names(in: ferry.files + "/f") == expected, "there are other files")
    }
}
