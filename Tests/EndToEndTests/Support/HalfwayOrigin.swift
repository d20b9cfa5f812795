import Glibc
import Synchronization
import Sys
import TestSupport

/// An origin of files `/f/<n>` of 20,000 bytes that depend on `n`. The first `free` responses are complete at
/// once; each later response pauses after half of its bytes until `open()`.
final class HalfwayOrigin: Sendable {
    static let byteCount = 20_000
    /// Fires with the file's number when a response pauses.
    let stopped = Signal<Int>()
    private let gate: Gate
    private let origin: ScriptedOrigin

    var url: String { origin.url }
    var requestCount: Int { origin.requests.count }

    static func bytes(_ number: Int) -> [UInt8] { patternBytes(byteCount, seed: UInt64(number)) }

    /// `trickles`: a paused response continues with one byte per second, so that its attempt does not count
    /// as stalled and its slot stays in use.
    init(free: Int, trickles: Bool = false) throws {
        let gate = Gate()
        let stopped = stopped
        let begun = Counter()
        self.gate = gate
        origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let number = request.path.split(separator: "/").last.flatMap { Int($0) } ?? 0
                let bytes = Self.bytes(number)
                let isStopped = begun.next() >= free
                guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\n\r\n"),
                    connection.send(Array(bytes[..<10_000]))
                else { return }
                var sent = 10_000
                if isStopped {
                    stopped.fire(number)
                    while trickles, sent < bytes.count - 1, !gate.pass(seconds: 1) {
                        guard connection.send([bytes[sent]]) else { return }
                        sent += 1
                    }
                    guard gate.pass() else { return }
                }
                guard connection.send(Array(bytes[sent...])) else { return }
            }
        }
    }

    func open() { gate.open() }

    func stop() {
        gate.open()
        origin.stop()
    }

    /// Returns a batch request that downloads the files `numbers` to `f/<n>` below the storage root.
    func batch(_ numbers: Range<Int>, webhook: String? = nil) -> String {
        let jobs = numbers.map { number in
            #"{"kind":"download","request":{"url":"\#(url)/f/\#(number)"},"#
                + #""destination":{"path":"f/\#(number)"}"#
                + (webhook.map { #","webhook":{"url":"\#($0)"}"# } ?? "") + "}"
        }
        return #"{"jobs":[\#(jobs.joined(separator: ","))]}"#
    }
}

/// Counts 0, 1, 2, …. Usable on any thread.
final class Counter: Sendable {
    private let count = Atomic(0)
    func next() -> Int { count.add(1, ordering: .relaxed).oldValue }
}

/// Returns the names in a directory, hidden ones included. Empty if the directory does not exist.
func names(in path: String) -> Set<String> { Set(directoryNames(path)) }
