import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

/// With `FERRY_TEST_LONG=1` in the environment, the random tests repeat ten times as often.
@Suite("Starts after kill -9", .onOwnThread)
struct RestartTests {
    private static let rounds = getenv("FERRY_TEST_LONG") == nil ? 5 : 50

    @Test("a node starts after the kill of a backend and, while PostgreSQL recovers, its own")
    func killedInRecovery() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("RestartTests.killedInRecovery: seed \(seed)")
        var random = SeededRandom(seed: seed)
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        for round in 0..<Self.rounds {
            let id = try ferry.submit(
                #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"#
                    + #""schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}}"#)
            let backend = try #require(backends(of: ferry).randomElement(using: &random))
            let pause = Int32.random(in: 100...400, using: &random)
            kill(backend, SIGKILL)
            _ = poll(nil, 0, pause)
            ferry.kill9()
            do { try ferry.start() } catch {
                Issue.record(error, "round \(round) of seed \(seed)")
                throw error
            }
            #expect(try ferry.json("GET", "/v1/jobs/\(id)")["state"] == .string("waiting"))
        }
    }

    @Test("a node starts after kills at any moment of its first starts")
    func killedInFirstStarts() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("RestartTests.killedInFirstStarts: seed \(seed)")
        var random = SeededRandom(seed: seed)
        for round in 0..<Self.rounds {
            let directory = try TemporaryDirectory.make("first")
            defer { TemporaryDirectory.remove(directory) }
            chmod(directory, 0o755)
            let settings = [
                "PATH": "/usr/local/bin:/usr/bin:/bin", "FERRY_DATA_DIR": directory + "/data",
                "FERRY_LISTEN": "127.0.0.1:\(try FreePort.find())", "FERRY_ADMIN_KEY": adminKey,
            ]
            let logs = (directory + "/killed", directory + "/log")
            for _ in 0..<2 {
                let first = try Program.start([Program.ferry, "serve"], environment: settings, log: logs.0)
                _ = poll(nil, 0, Int32.random(in: 10...1_500, using: &random))
                kill(first, SIGKILL)
                _ = Program.wait(first)
            }
            let last = try Program.start([Program.ferry, "serve"], environment: settings, log: logs.1)
            let log = { String(decoding: readFile(logs.1) ?? [], as: UTF8.self) }
            #expect(becomes { log().contains("Ferry is ready") || log().contains("cannot start") })
            kill(last, SIGTERM)
            #expect(Program.wait(last) == 0, "round \(round) of seed \(seed): \(log())")
        }
    }

    /// Returns the backends of the process's private PostgreSQL.
    private func backends(of ferry: FerryProcess) -> [pid_t] {
        let cluster = ferry.directory + "/postgres"
        return directoryNames("/proc").compactMap { pid_t($0) }.filter { pid in
            let title = String(decoding: readFile("/proc/\(pid)/cmdline") ?? [], as: UTF8.self)
            return title.hasPrefix("postgres: ferry postgres") && isSame("/proc/\(pid)/cwd", cluster)
        }
    }

    private func isSame(_ path: String, _ other: String) -> Bool {
        var (one, two) = (stat(), stat())
        return stat(path, &one) == 0 && stat(other, &two) == 0 && one.st_ino == two.st_ino
            && one.st_dev == two.st_dev
    }
}
