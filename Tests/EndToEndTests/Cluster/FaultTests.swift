import FerryCore
import Glibc
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// The law of every call that touches a file: it may fail at any moment, in any way, and then the file is
/// exact or the job has failed with an error of its class; never is a wrong file there, and nothing leaks.
@Suite("Files that fail", .onOwnThread)
struct FaultTests {
    private static let size = 700_000
    private static let bytes = patternBytes(size, seed: 5)
    private static let removing: Set<String> = [
        "unlinkat", "openat2", "openat", "fdopendir", "readdir", "fstat", "fstatat",
    ]
    private static let codes: Set<String> = ["storage_full", "storage_failed", "source_not_found"]

    enum Scenario: String, CaseIterable, Sendable {
        case download, segments, upload
        /// Cut in the middle; the next attempt goes on.
        case resumed
    }

    /// What the last upload brought.
    private final class Received: Sendable {
        let bytes = Mutex<[UInt8]?>(nil)
    }

    /// A service whose file calls can be made to fail, and what it fetches from and sends to.
    private final class Place {
        let ferry: FerryProcess
        let control: Faults
        let origin: RangeOrigin
        /// Hangs up in the middle of the file, unless it is asked for the rest.
        let cutting: RangeOrigin
        let sink: ScriptedOrigin
        let received = Received()
        private let database: TestDatabase
        private let directory: String

        init() throws {
            directory = try TemporaryDirectory.make("faults")
            let library = directory + "/faults.so"
            let source = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
            // The compiler that comes with Swift: a machine that builds this has no other for certain.
            let made = try Program.run(
                ["clang", "-shared", "-fPIC", "-O1", "-o", library, "/\(source)/faults/faults.c", "-ldl"],
                environment: ["PATH": getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"])
            guard made.status == 0 else { throw TestSupportError(made.messages) }
            mkdir(directory + "/files", 0o755)
            control = try Faults(directory + "/control")
            database = try TestDatabase()
            ferry = try FerryProcess([
                "FERRY_DATABASE_URL": database.url, "FERRY_STORAGE_ROOT": directory + "/files",
                "FERRY_CONCURRENCY": "4", "LD_PRELOAD": library, "FAULTS_CONTROL": directory + "/control",
                "FAULTS_ROOT": directory + "/files", "FERRY_RATE_LIMIT": "1e6",
            ])
            origin = try RangeOrigin(FaultTests.bytes)
            cutting = try RangeOrigin(FaultTests.bytes) { answer, asked, _ in
                if asked.range == nil { answer.cutAfter = FaultTests.size / 2 }
            }
            let received = received
            sink = try ScriptedOrigin.answering { _, body in
                // What was cut off may come after the next one.
                if body.count >= FaultTests.size { received.bytes.withLock { $0 = body } }
                return Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            try writeFile(ferry.files + "/source", FaultTests.bytes)
        }

        func remove() {
            ferry.remove()
            origin.stop()
            cutting.stop()
            sink.stop()
            TemporaryDirectory.remove(directory)
        }

        /// Runs the scenario with the next calls counted, and one of them failing.
        func run(_ scenario: Scenario, failing call: Int32, _ error: Int32) throws -> JSON {
            received.bytes.withLock { $0 = nil }
            control.arm(call, error)
            let rules = #""retry":{"max_attempts":1}"#
            let job =
                switch scenario {
                case .download:
                    #"{"kind":"download","request":{"url":"\#(origin.url)"},"#
                        + #""destination":{"path":"deep/down/file"},\#(rules)}"#
                case .segments:
                    #"{"kind":"download","segments":3,"request":{"url":"\#(origin.url)"},"#
                        + #""destination":{"path":"deep/down/file"},\#(rules)}"#
                case .upload:
                    #"{"kind":"upload","request":{"url":"\#(sink.url)/"},"#
                        + #""source":{"path":"source"},\#(rules)}"#
                case .resumed:
                    #"{"kind":"download","request":{"url":"\#(cutting.url)"},"#
                        + #""destination":{"path":"deep/down/file"},"#
                        + #""retry":{"max_attempts":4,"initial_delay":0.01,"max_delay":0.01}}"#
                }
            let result = try ferry.run(job)
            control.disarm()
            return result
        }

        /// The same job once more, with nothing that fails.
        func retry(_ job: JSON) throws -> JSON {
            received.bytes.withLock { $0 = nil }
            let again = try ferry.json("POST", "/v1/jobs/\(job["id"]?.string ?? "")/retry")
            return try ferry.finished(again["id"]?.string ?? "")
        }

        /// What lies beside the file.
        var leftovers: [String] { names(in: ferry.files + "/deep/down").filter { $0 != "file" } }

        /// Descriptors of the process that are on files below the storage root.
        func openFileCount() throws -> Int {
            let metrics = try ferry.call("GET", "/metrics").text
            let line = metrics.split(separator: "\n").first { $0.hasPrefix("process_open_fds ") }
            return Int(line?.split(separator: " ").last ?? "") ?? -1
        }
    }

    /// The words that the preloaded library and the test share (`Tests/faults/faults.c`).
    private final class Faults {
        private let words: UnsafeMutablePointer<Int32>

        init(_ path: String) throws {
            try writeFile(path, [UInt8](repeating: 0, count: 4_096))
            let descriptor = open(path, O_RDWR | O_CLOEXEC)
            defer { close(descriptor) }
            let memory = mmap(nil, 4_096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
            guard let memory, memory != MAP_FAILED else { throw SystemError("mmap") }
            words = memory.assumingMemoryBound(to: Int32.self)
        }

        deinit { munmap(words, 4_096) }

        func arm(_ call: Int32, _ error: Int32) {
            (words[1], words[2], words[3]) = (call, error, 0)
            atomicThreadFence()
            words[0] = 1
        }

        func disarm() { words[0] = 0 }

        /// Calls since it was armed.
        var callCount: Int32 { words[3] }

        private func atomicThreadFence() { atomicMemoryFence(ordering: .sequentiallyConsistent) }

        var failedCall: String {
            let name = UnsafeRawPointer(words + 4).assumingMemoryBound(to: CChar.self)
            return String(cString: name)
        }
    }

    @Test("whatever call fails, the file is exact or the error is of its class", arguments: Scenario.allCases)
    func everyCall(_ scenario: Scenario) throws {
        let place = try Place()
        defer { place.remove() }
        let whole = try place.run(scenario, failing: .max, EIO)
        #expect(whole["state"] == .string("succeeded"), "\(whole)")
        let callCount = place.control.callCount
        #expect(callCount > 5)
        let before = try place.openFileCount()
        var failures: [String: Int] = [:]
        /// Attempts that jobs took of whose syncs one had failed.
        var attemptsAfterSync: Set<Int64> = []
        for error in [ENOSPC, EIO, EDQUOT, EINTR, 0] {
            for call in 1...callCount + 2 {
                let job = try place.run(scenario, failing: call, error)
                let what: Comment =
                    "\(place.control.failedCall) \(call) of \(callCount), errno \(error): \(job)"
                let code = job["error"]?["code"]?.string
                switch job["state"]?.string {
                case "succeeded": break
                case "failed": #expect(code.map(Self.codes.contains) == true, what)
                default: Issue.record(what)
                }
                failures[code ?? "none", default: 0] += 1
                if place.control.failedCall == "fdatasync" {
                    attemptsAfterSync.insert(job["attempt"]?.integer ?? 0)
                }
                // What could not be removed is collected later.
                if !Self.removing.contains(place.control.failedCall) {
                    #expect(becomes { place.leftovers.isEmpty }, "\(place.leftovers), \(what)")
                }
                check(scenario, place, isDone: job["state"] == .string("succeeded"), what)
                guard job["state"] == .string("failed") else { continue }
                let again = try place.retry(job)
                #expect(again["state"]?.string == "succeeded", "\(again) after \(what)")
                check(scenario, place, isDone: true, what)
            }
        }
        if scenario == .resumed {
            #expect(failures.count == 1, "every fault passes: \(failures)")
            // Nobody knows what is left: the one after the next goes on.
            #expect(attemptsAfterSync.contains(3), "\(attemptsAfterSync)")
        } else {
            #expect(failures["none", default: 0] > 0, "\(failures)")
            #expect(failures["storage_failed", default: 0] > 0, "\(failures)")
            if scenario != .upload { #expect(failures["storage_full", default: 0] > 0, "\(failures)") }
        }
        let isFree = becomes {
            try place.ferry.call("GET", "/metrics").text.contains("\nferry_worker_slots_free 4\n")
        }
        #expect(isFree, "a slot is gone")
        #expect(becomes { try place.openFileCount() <= before + 2 }, "descriptors leak: \(before) before")
    }

    private func check(_ scenario: Scenario, _ place: Place, isDone: Bool, _ what: Comment) {
        if scenario == .upload {
            let isExact = place.received.bytes.withLock { $0 == Self.bytes }
            if isDone { #expect(isExact, what) }
            return
        }
        let path = place.ferry.files + "/deep/down/file"
        let found = readFile(path)
        if isDone || found != nil {
            let isExact = found == Self.bytes
            #expect(isExact, what)
        }
        TemporaryDirectory.remove(place.ferry.files + "/deep")
    }
}
