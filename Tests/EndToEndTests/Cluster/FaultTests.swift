import FerryCore
import Glibc
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// Any system call on a file may fail at any moment. Then the file is exact, or the job has failed with an
/// error of the right class. No wrong file appears and no descriptor leaks.
@Suite("Failing file system calls", .onOwnThread)
struct FaultTests {
    private static let size = 700_000
    private static let bytes = patternBytes(size, seed: 5)
    private static let removing: Set<String> = [
        "unlinkat", "openat2", "openat", "fdopendir", "readdir", "fstat", "fstatat",
    ]
    private static let codes: Set<String> = ["storage_full", "storage_failed", "source_not_found"]

    enum Scenario: String, CaseIterable, Sendable {
        case download, segments, upload
        /// A download whose first connection closes in the middle and whose next attempt resumes.
        case resumed
    }

    /// Body of the last complete upload.
    private final class Received: Sendable {
        let bytes = Mutex<[UInt8]?>(nil)
    }

    /// A Ferry process whose file calls can be made to fail, with its origins.
    private final class Setup {
        let ferry: FerryProcess
        let control: Faults
        let origin: RangeOrigin
        /// Closes the connection in the middle of the file, unless the request has a `Range`.
        let cutting: RangeOrigin
        let sink: ScriptedOrigin
        let received = Received()
        private let database: TestDatabase
        private let directory: String

        init() throws {
            directory = try TemporaryDirectory.make("faults")
            let library = directory + "/faults.so"
            let source = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
            // clang comes with the Swift toolchain; another compiler may be missing.
            let compilation = try Program.run(
                ["clang", "-shared", "-fPIC", "-O1", "-o", library, "/\(source)/faults/faults.c", "-ldl"],
                environment: ["PATH": getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"])
            guard compilation.status == 0 else { throw TestSupportError(compilation.messages) }
            mkdir(directory + "/files", 0o755)
            control = try Faults(directory + "/control")
            database = try TestDatabase()
            ferry = try FerryProcess([
                "FERRY_DATABASE_URL": database.url, "FERRY_STORAGE_ROOT": directory + "/files",
                "FERRY_CONCURRENCY": "4", "LD_PRELOAD": library, "FAULTS_CONTROL": directory + "/control",
                "FAULTS_ROOT": directory + "/files", "FERRY_RATE_LIMIT": "1e6",
            ])
            origin = try RangeOrigin(FaultTests.bytes)
            cutting = try RangeOrigin(FaultTests.bytes) { response, asked, _ in
                if asked.range == nil { response.cutAfter = FaultTests.size / 2 }
            }
            let received = received
            sink = try ScriptedOrigin.answering { _, body in
                // The partial body of a failed upload may arrive after the next upload.
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

        /// Runs the scenario and counts its file calls, or only those with a name. The call with number
        /// `call` fails with `error`.
        func run(
            _ scenario: Scenario, failing call: Int32, named name: String = "", _ error: Int32
        ) throws -> JSON {
            received.bytes.withLock { $0 = nil }
            control.arm(call, named: name, error)
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

        /// Retries the job without a fault.
        func retry(_ job: JSON) throws -> JSON {
            received.bytes.withLock { $0 = nil }
            let again = try ferry.json("POST", "/v1/jobs/\(job["id"]?.string ?? "")/retry")
            return try ferry.finished(again["id"]?.string ?? "")
        }

        /// Names in the directory of the file, other than the file.
        var leftovers: [String] { names(in: ferry.files + "/deep/down").filter { $0 != "file" } }

        /// Number of open descriptors of the process.
        func openFileCount() throws -> Int {
            let metrics = try ferry.call("GET", "/metrics").text
            let line = metrics.split(separator: "\n").first { $0.hasPrefix("process_open_fds ") }
            return Int(line?.split(separator: " ").last ?? "") ?? -1
        }
    }

    /// Memory shared with the preloaded library (`Tests/faults/faults.c`).
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

        /// An empty name stands for all calls. Other names have up to 31 characters.
        func arm(_ call: Int32, named name: String, _ error: Int32) {
            (words[1], words[2], words[3], words[4]) = (call, error, 0, 0)
            strncpy(UnsafeMutableRawPointer(words + 12).assumingMemoryBound(to: CChar.self), name, 32)
            atomicThreadFence()
            words[0] = 1
        }

        func disarm() { words[0] = 0 }

        /// Whether there were as many calls as `arm` was told.
        var wasReached: Bool { words[1] <= 0 }

        /// Number of file calls since `arm`.
        var callCount: Int32 { words[3] }

        private func atomicThreadFence() { atomicMemoryFence(ordering: .sequentiallyConsistent) }

        var failedCall: String {
            let name = UnsafeRawPointer(words + 4).assumingMemoryBound(to: CChar.self)
            return String(cString: name)
        }
    }

    @Test(
        "if a file call fails, the file is exact or the job has an error of the right class",
        arguments: Scenario.allCases)
    func everyCall(_ scenario: Scenario) throws {
        let setup = try Setup()
        defer { setup.remove() }
        let whole = try setup.run(scenario, failing: .max, EIO)
        #expect(whole["state"] == .string("succeeded"), "\(whole)")
        let callCount = setup.control.callCount
        #expect(callCount > 5)
        let before = try setup.openFileCount()
        var failures: [String: Int] = [:]
        for error in [ENOSPC, EIO, EDQUOT, EINTR, 0] {
            // The number of calls depends on how the bytes arrive.
            var (call, unreachedCount): (Int32, Int) = (0, 0)
            while unreachedCount < 2 {
                call += 1
                let job = try setup.run(scenario, failing: call, error)
                if !setup.control.wasReached { unreachedCount += 1 }
                let context: Comment =
                    "\(setup.control.failedCall) \(call) of \(callCount), errno \(error): \(job)"
                let code = job["error"]?["code"]?.string
                switch job["state"]?.string {
                case "succeeded": break
                case "failed": #expect(code.map(Self.codes.contains) == true, context)
                default: Issue.record(context)
                }
                failures[code ?? "none", default: 0] += 1
                // A file that could not be removed is removed later.
                if !Self.removing.contains(setup.control.failedCall) {
                    #expect(becomes { setup.leftovers.isEmpty }, "\(setup.leftovers), \(context)")
                }
                check(scenario, setup, isDone: job["state"] == .string("succeeded"), context)
                guard job["state"] == .string("failed") else { continue }
                let again = try setup.retry(job)
                #expect(again["state"]?.string == "succeeded", "\(again) after \(context)")
                check(scenario, setup, isDone: true, context)
            }
        }
        if scenario == .resumed {
            #expect(failures.count == 1, "a job failed: \(failures)")
        } else {
            #expect(failures["none", default: 0] > 0, "\(failures)")
            #expect(failures["storage_failed", default: 0] > 0, "\(failures)")
            if scenario != .upload { #expect(failures["storage_full", default: 0] > 0, "\(failures)") }
        }
        let isFree = becomes {
            try setup.ferry.call("GET", "/metrics").text.contains("\nferry_worker_slots_free 4\n")
        }
        #expect(isFree, "a slot is missing")
        #expect(becomes { try setup.openFileCount() <= before + 2 }, "descriptors leak: \(before) before")
    }

    /// After a failed sync the state of the partial download is unknown (fsync(2)).
    @Test("a download whose sync failed starts again in another attempt", arguments: [EIO, ENOSPC])
    func failedSync(error: Int32) throws {
        let setup = try Setup()
        defer { setup.remove() }
        let job = try setup.run(.resumed, failing: 1, named: "fdatasync", error)
        #expect(setup.control.wasReached)
        #expect(job["state"] == .string("succeeded"), "\(job)")
        #expect(job["attempt"] == .integer(2), "\(job)")
        check(.resumed, setup, isDone: true, "\(job)")
    }

    private func check(_ scenario: Scenario, _ setup: Setup, isDone: Bool, _ context: Comment) {
        if scenario == .upload {
            let isExact = setup.received.bytes.withLock { $0 == Self.bytes }
            if isDone { #expect(isExact, context) }
            return
        }
        let path = setup.ferry.files + "/deep/down/file"
        let found = readFile(path)
        if isDone || found != nil {
            let isExact = found == Self.bytes
            #expect(isExact, context)
        }
        TemporaryDirectory.remove(setup.ferry.files + "/deep")
    }
}
