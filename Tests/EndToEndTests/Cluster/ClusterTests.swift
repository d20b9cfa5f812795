import Curl
import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

/// Log message of a node that requeues the jobs of a dead node.
let deadNodeMessage = "jobs of a dead node are queued again"

@Suite("Two nodes on one database", .onOwnThread)
struct ClusterTests {
    /// Two nodes with the same storage root.
    private struct Pair {
        let database: TestDatabase
        let first: FerryProcess
        let second: FerryProcess

        /// `beforeSecond` runs with the first node before the second one starts.
        init(concurrency: Int, beforeSecond: (FerryProcess) throws -> Void = { _ in }) throws {
            database = try TestDatabase()
            let settings = [
                "FERRY_CONCURRENCY": "\(concurrency)", "FERRY_DATABASE_URL": database.url,
                "FERRY_SECRET_KEY": "one key for both nodes, long enough", "FERRY_LOG_LEVEL": "notice",
            ]
            first = try FerryProcess(settings)
            do {
                try beforeSecond(first)
            } catch {
                first.remove()
                throw error
            }
            second = try FerryProcess(settings.merging(["FERRY_STORAGE_ROOT": first.files]) { $1 })
        }

        func remove() {
            second.remove()
            first.remove()
        }
    }

    @Test("after kill -9 of one node, the other node finishes all jobs")
    func takeover() throws {
        let nodes = try Pair(concurrency: 8)
        defer { nodes.remove() }
        let origin = try HalfwayOrigin(free: 40, trickles: true)
        defer { origin.stop() }
        let ids = try nodes.first.submitBatch(origin.batch(0..<150))
        #expect(origin.stopped.wait(for: 16, seconds: 240).count >= 16, "both nodes work")
        nodes.first.kill9()
        origin.open()
        #expect(becomes(seconds: 240) { try nodes.second.unfinishedCount() == 0 })
        #expect(nodes.second.log.contains(deadNodeMessage))
        for job in try nodes.second.allJobs() { #expect(job["state"]?.string == "succeeded", "\(job)") }
        for number in ids.indices {
            #expect(readFile("\(nodes.first.files)/f/\(number)") == HalfwayOrigin.bytes(number))
        }
        let expected = Set(ids.indices.map(String.init))
        #expect(names(in: nodes.first.files + "/f") == expected)
    }

    @Test("a node reads, awaits and cancels jobs that another node runs, and returns their content")
    func otherNode() throws {
        let nodes = try Pair(concurrency: 4)
        defer { nodes.remove() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let begun = Signal<Void>()
        let closed = Signal<Void>()
        let endless = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nsome bytes")
            begun.fire(())
            if connection.waitUntilClosed() { closed.fire(()) }
        }
        defer { endless.stop() }
        #expect(becomes { try nodes.first.json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        let id = try nodes.first.submit(
            #"{"kind":"download","request":{"url":"\#(endless.url)/","timeout_for_request":600},"#
                + #""destination":{"path":"endless"}}"#)
        #expect(begun.wait().count == 1)
        #expect(try nodes.second.call("POST", "/v1/jobs/\(id)/cancel", "{}").status == 200)
        #expect(closed.wait().count == 1)
        #expect(try nodes.second.finished(id)["state"]?.string == "cancelled")
        #expect(try nodes.first.finished(id)["state"]?.string == "cancelled")
        #expect(!names(in: nodes.first.files).contains("endless"))
        let shared = try nodes.first.submitBatch(origin.batch(7..<8))
        #expect(origin.stopped.wait().count == 1)
        origin.open()
        #expect(try nodes.second.finished(shared[0])["state"]?.string == "succeeded")
        let content = try nodes.second.call("GET", "/v1/jobs/\(shared[0])/content")
        #expect(content.body == HalfwayOrigin.bytes(7))
    }

    @Test("an upload of a managed file runs on the node that stores the file")
    func managedFileElsewhere() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(300_000)
        try nginx.serve("file", bytes)
        var source = JSON.null
        let nodes = try Pair(concurrency: 4) { first in
            source = try first.run(#"{"kind":"download","request":{"url":"\#(nginx.url)/file"}}"#)
        }
        defer { nodes.remove() }
        #expect(becomes { try nodes.first.json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        let (id, node) = (source["id"]?.string ?? "", source["node"]?.string)
        #expect(source["state"]?.string == "succeeded" && node != nil)
        let upload = { (number: Int) in
            #"{"kind":"upload","request":{"url":"\#(nginx.url)/put/\#(number)"},"source":{"job":"\#(id)"}}"#
        }
        let ids = try (0..<6).map { try (($0 % 2 == 0) ? nodes.second : nodes.first).submit(upload($0)) }
        for (number, id) in ids.enumerated() {
            let job = try nodes.second.finished(id)
            #expect(job["state"]?.string == "succeeded" && job["node"]?.string == node, "\(job)")
            #expect(readFile("\(nginx.root)/put/\(number)") == bytes)
        }
        // If that node is down, the upload fails with storage_failed on another node and waits for a retry.
        nodes.first.terminate()
        let last = try nodes.second.submit(upload(9))
        #expect(
            becomes {
                let job = try nodes.second.json("GET", "/v1/jobs/\(last)")
                return job["error"]?["code"]?.string == "storage_failed"
                    && job["waiting_for"]?.string == "retry"
            })
        try nodes.first.start()
        let job = try nodes.second.finished(last)
        #expect(job["state"]?.string == "succeeded" && job["node"]?.string == node, "\(job)")
    }

    @Test("a node stopped beyond its lease publishes no file, commits no result and sends no delivery")
    func stoppedBeyondLease() throws {
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let origin = try PausingOrigin()
        defer { origin.stop() }
        var ids: [String] = []
        let nodes = try Pair(concurrency: 4) { first in
            ids = try ["a", "b", "c"].map { name in
                try first.submit(
                    #"{"kind":"download","request":{"url":"\#(origin.url)/\#(name)"},"#
                        + #""destination":{"path":"\#(name)"},"webhook":{"url":"\#(receiver.url)"}}"#)
            }
            #expect(Set(origin.begun.wait(for: 3)) == ["/a", "/b", "/c"])
        }
        defer { nodes.remove() }
        #expect(becomes { try nodes.second.json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        nodes.first.send(SIGSTOP)
        for id in ids {
            let job = try nodes.second.finished(id)
            #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 2, "\(job)")
        }
        // The stopped node gets the rest of /a before it continues, and the rest of /b after its lease is
        // valid again. /c is then cut off, and its bytes are kept for a later attempt, which there is not.
        origin.first.open()
        nodes.first.send(SIGCONT)
        #expect(becomes { try nodes.first.call("GET", "/readyz").status == 200 })
        origin.second.open()
        #expect(origin.sent.wait(for: 3).count == 3)
        // All results were rejected by fencing.
        #expect(
            becomes {
                try nodes.first.call("GET", "/metrics").text.contains("\nferry_results_fenced_total 3\n")
            })
        for (name, id) in zip(["a", "b", "c"], ids) {
            #expect(
                readFile("\(nodes.first.files)/\(name)") == PausingOrigin.second, "\(name) was overwritten")
            #expect(try nodes.first.json("GET", "/v1/jobs/\(id)")["attempt"]?.integer == 2)
        }
        #expect(becomes { names(in: nodes.first.files) == ["a", "b", "c"] }, "a partial file is left")
        let deliveries = receiver.deliveries.wait(for: 3)
        #expect(deliveries.count == 3 && receiver.deliveries.wait(seconds: 1).isEmpty)
    }
}

/// An origin that pauses in the middle of the first response for each path, and sends other bytes in the
/// second. The first response for `/c` ends at the pause.
private final class PausingOrigin: Sendable {
    static let first = patternBytes(20_000, seed: 1)
    static let second = patternBytes(20_000, seed: 2)
    /// Fires with the path when a first response pauses.
    let begun = Signal<String>()
    let sent = Signal<String>()
    /// End the pauses of `/a`, and of `/b` and `/c`.
    let first: Gate
    let second: Gate
    private let origin: ScriptedOrigin
    var url: String { origin.url }

    init() throws {
        let (begun, sent) = (begun, sent)
        let (first, second) = (Gate(), Gate())
        let gates = ["/a": first, "/b": second, "/c": second]
        let requestCounts = ["/a": Counter(), "/b": Counter(), "/c": Counter()]
        (self.first, self.second) = (first, second)
        origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let isFirst = requestCounts[request.path]?.next() == 0
                let bytes = isFirst ? Self.first : Self.second
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\nETag: \"\(isFirst)\"\r\n\r\n")
                connection.send(Array(bytes[..<10_000]))
                if isFirst {
                    begun.fire(request.path)
                    _ = gates[request.path]?.pass()
                }
                let isCut = isFirst && request.path == "/c"
                if !isCut { connection.send(Array(bytes[10_000...])) }
                if isFirst { sent.fire(request.path) }
                if isCut { return }
            }
        }
    }

    func stop() {
        first.open()
        second.open()
        origin.stop()
    }
}
