import FerryCore
import Glibc
import Sys
import TestSupport
import Testing

@Suite("Nothing is lost", .serialized)
struct CrashTests {
    /// An origin whose files take about 20 ms each: `/f/<n>` is 20,000 bytes that depend on `n`.
    private func slowOrigin() throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let bytes = patternBytes(20_000, seed: number(request.path))
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\nETag: \"\(request.path)\"\r\n\r\n"
                guard connection.send(head), connection.send(Array(bytes[..<10_000])) else { return }
                // The origin is slow: this is the load, not a wait for anything.
                poll(nil, 0, 20)
                guard connection.send(Array(bytes[10_000...])) else { return }
            }
        }
    }

    private func batch(_ origin: ScriptedOrigin, _ range: Range<Int>, webhook: String? = nil) -> String {
        let jobs = range.map { index in
            #"{"kind":"download","request":{"url":"\#(origin.url)/f/\#(index)"},"destination":{"path":"f/\#(index)"}"#
                + (webhook.map { #","webhook":{"url":"\#($0)"}"# } ?? "") + "}"
        }
        return #"{"jobs":[\#(jobs.joined(separator: ","))]}"#
    }

    /// The identifiers of an accepted batch.
    private func submit(_ ferry: FerryProcess, _ body: String) throws -> [String] {
        let answer = try ferry.call("POST", "/v1/jobs/batch", body)
        #expect(answer.status == 201)
        return try (JSON.parse(answer.body)["data"]?.array ?? []).compactMap { $0["id"]?.string }
    }

    /// Every job succeeded, every file is exact, and nothing else is left.
    private func expectAllWhole(_ ferry: FerryProcess, _ ids: [String]) throws {
        for (index, id) in ids.enumerated() {
            let job = try ferry.json("GET", "/v1/jobs/\(id)")
            #expect(job["state"]?.string == "succeeded", "\(job)")
            #expect(readFile("\(ferry.files)/f/\(index)") == patternBytes(20_000, seed: UInt64(index)))
        }
        let names = directoryNames(ferry.files + "/f")
        #expect(Set(names) == Set((0..<ids.count).map(String.init)), "something is left beside the files")
    }

    @Test("after kill -9 in the middle of a thousand transfers every job succeeds and every file is whole")
    func killedWhileTransferring() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "32", "FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let origin = try slowOrigin()
        defer { origin.stop() }
        let ids = try submit(ferry, batch(origin, 0..<1000))
        #expect(ids.count == 1000)
        var left: Int64 = 1000
        #expect(eventually(seconds: 30) { left = (try? ferry.unfinished()) ?? left; return left < 700 })
        ferry.kill9()
        for name in directoryNames(ferry.files + "/f") where !name.hasPrefix(".") {
            #expect(readFile("\(ferry.files)/f/\(name)") == patternBytes(20_000, seed: UInt64(name) ?? 0))
        }
        try ferry.start()
        #expect(eventually(seconds: 60) { (try? ferry.unfinished()) == 0 })
        try expectAllWhole(ferry, ids)
    }

    @Test("a restart of the database under load loses nothing")
    func databaseRestarts() throws {
        let server = try TestServer()
        defer { server.remove() }
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "32", "FERRY_DATABASE_URL": server.url()])
        defer { ferry.remove() }
        let origin = try slowOrigin()
        defer { origin.stop() }
        let ids = try submit(ferry, batch(origin, 0..<600))
        #expect(eventually(seconds: 30) { ((try? ferry.unfinished()) ?? 600) < 450 })
        server.stop(SIGQUIT)
        #expect(eventually(seconds: 10) { (try? ferry.call("GET", "/readyz").status) == 503 })
        try server.start()
        #expect(eventually(seconds: 60) { (try? ferry.unfinished()) == 0 })
        try expectAllWhole(ferry, ids)
    }

    @Test("two nodes share one database, and the living one takes over what a dead one held")
    func twoNodes() throws {
        let database = try TestDatabase()
        let settings = ["FERRY_CONCURRENCY": "16", "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes"]
        let first = try FerryProcess(settings)
        defer { first.remove() }
        // Both write below the same root, as nodes with shared storage do.
        let second = try FerryProcess(settings.merging(["FERRY_STORAGE_ROOT": first.files]) { $1 })
        defer { second.remove() }
        let origin = try slowOrigin()
        defer { origin.stop() }
        let ids = try submit(first, batch(origin, 0..<400))
        #expect(eventually(seconds: 30) { ((try? second.unfinished()) ?? 400) < 300 })
        first.kill9()
        #expect(eventually(seconds: 60) { (try? second.unfinished()) == 0 })
        for (index, id) in ids.enumerated() {
            #expect(try second.json("GET", "/v1/jobs/\(id)")["state"]?.string == "succeeded")
            #expect(readFile("\(first.files)/f/\(index)") == patternBytes(20_000, seed: UInt64(index)))
        }
    }

    @Test("webhooks reach a receiver that was away, each with its one identifier, also over a crash")
    func receiverAway() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let origin = try slowOrigin()
        defer { origin.stop() }
        let failures = Signal<String>()
        let receiver = try WebhookReceiver { delivery in
            // The first try of each is turned down.
            failures.fire(delivery.id)
            return delivery.body.isEmpty ? 500 : 503
        }
        defer { receiver.stop() }
        let ids = try submit(ferry, batch(origin, 0..<20, webhook: receiver.url))
        let first = receiver.deliveries.wait(for: 20)
        #expect(Set(first.map(\.id)).count == 20)
        ferry.kill9()
        try ferry.start()
        let second = receiver.deliveries.wait(for: 20, seconds: 40)
        #expect(Set(second.map(\.id)) == Set(first.map(\.id)))
        #expect(Set(second.compactMap { $0.json["data"]?["job"]?["id"]?.string }) == Set(ids))
    }
}

/// The number at the end of a path.
private func number(_ path: String) -> UInt64 { path.split(separator: "/").last.flatMap { UInt64($0) } ?? 0 }

/// What is in a directory, hidden names too.
func directoryNames(_ path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != ".", name != ".." { names.append(name) }
    }
    return names
}
