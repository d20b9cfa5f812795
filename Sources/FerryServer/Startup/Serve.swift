import Curl
import FerryCore
import Glibc
import Logging
import Synchronization
import Sys

/// Version in `ferry --version`, `User-Agent` and `/v1/admin/status`.
package let ferryVersion = "0.1.0"

/// Reads the settings of this process from `flags` (by the names of the variables), environment, file and
/// defaults.
package func loadConfiguration(flags: [String: String]) throws(Configuration.Failure) -> Configuration {
    try Configuration(
        SettingSource(flags: flags, environment: processEnvironment()), isTerminal: isatty(STDERR_FILENO) == 1
    )
}

/// Runs the service until SIGTERM, SIGINT or SIGHUP and returns the exit status. During the start these
/// signals end the process at once with status 0.
///
/// Call on the main thread before other threads exist: this blocks the signals for all threads.
///
/// `json`: reports readiness as a JSON object instead of a sentence.
package func serve(_ configuration: Configuration, json: Bool) -> Int32 {
    let blocked = blockSignals()
    signal(SIGPIPE, SIG_IGN)
    // Keeps freed memory of request bodies. Otherwise the top of the heap is returned with each body, and
    // faulting its pages in again took a tenth of the CPU time of a job of 100 KiB.
    keepFreedMemory(perHeap: 4 << 20, mappedFrom: 1 << 20)
    ProcessMetrics.begin()
    let logger = makeLogger(configuration)
    reportCrashes { signal in crashLine(signal, isJSON: configuration.logFormat == .json) }
    defer { LogSink.standardError.finish(milliseconds: logMilliseconds) }
    let signals = TerminationSignals(blocked, logger: logger)
    let watchdog = ShutdownWatchdog()
    for unknown in configuration.unknownSettings { logger.warning("\(unknown.sentence)") }
    do {
        let application = try Application.start(configuration, logger: logger)
        signals.startCompleted()
        application.begin(json: json)
        let isRequested = waitForEnd(signals, logger: logger) { application.isHealthy }
        let status: Int32 = isRequested ? 0 : 1
        watchdog.end(application, status: status, after: configuration.drainSeconds + stopSeconds)
        application.stop()
        return status
    } catch {
        logger.critical("Ferry cannot start.", metadata: ["reason": "\(error)"])
        return 1
    }
}

/// Brings the schema up to date and returns the exit status.
package func migrate(_ configuration: Configuration, json: Bool) -> Int32 {
    let logger = makeLogger(configuration)
    do {
        let database = try Database.open(configuration, logger: logger)
        defer { database.close() }
        let applied = try database.migrate()
        let numbers = applied.map(String.init).joined(separator: json ? "," : ", ")
        if json {
            print(#"{"applied":[\#(numbers)]}"#)
        } else {
            print(applied.isEmpty ? "The schema is up to date." : "Applied: \(numbers).")
        }
        return 0
    } catch {
        logger.critical("The schema cannot be migrated.", metadata: ["reason": "\(error)"])
        return 1
    }
}

func makeLogger(_ configuration: Configuration) -> Logger {
    var logger = Logger(label: "ferry") { label in
        LineLogHandler(label: label, level: configuration.logLevel, isJSON: configuration.logFormat == .json)
    }
    logger.logLevel = configuration.logLevel
    return logger
}

/// Returns the line of the log for a signal that ends the process. It has no time: nothing can be formatted
/// when it is written.
private func crashLine(_ signal: String, isJSON: Bool) -> [UInt8] {
    let message = "The process ends after a crash."
    guard isJSON else { return Array("critical ferry: \(message) signal=\(signal)\n".utf8) }
    var writer = JSONWriter(reservingCapacity: 256)
    writer.beginObject()
    writer.member("level", Logger.Level.critical.rawValue)
    writer.member("logger", "ferry")
    writer.member("message", message)
    writer.member("signal", signal)
    writer.endObject()
    return writer.bytes + [UInt8(ascii: "\n")]
}

func processEnvironment() -> [String: String] {
    var values: [String: String] = [:]
    var entry = environ
    while let text = entry.pointee {
        let pair = String(cString: text)
        if let equals = pair.firstIndex(of: "=") {
            values[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
        }
        entry += 1
    }
    return values
}

/// Blocks SIGTERM, SIGINT and SIGHUP, which `TerminationSignals` then receives. SIGHUP stays ignored if it
/// was (nohup(1)): a blocked signal would not be.
private func blockSignals() -> sigset_t {
    var signals = forcingSignals()
    var hangUp = sigaction()
    sigaction(SIGHUP, nil, &hangUp)
    let ignoring = unsafeBitCast(SIG_IGN, to: Int.self)
    if unsafeBitCast(hangUp.__sigaction_handler.sa_handler, to: Int.self) != ignoring {
        sigaddset(&signals, SIGHUP)
    }
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    return signals
}

/// Returns the signals that end the process at once when received a second time. Not SIGHUP: a closing
/// terminal may send it several times.
private func forcingSignals() -> sigset_t {
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGTERM)
    sigaddset(&signals, SIGINT)
    return signals
}

/// Receives the signals that end the process, on a thread of its own.
///
/// A start may wait (for a database, for another node's migration, for a recovery) and has no work to finish:
/// a signal then ends the process at once, and the kernel ends the private PostgreSQL. After
/// `startCompleted`, the first signal makes `wait` return `true`, and the second one ends the process.
private final class TerminationSignals: Sendable {
    private let isStarting = Mutex(true)
    private let requests = Mailbox<Void>()

    /// All existing threads must have blocked the signals.
    init(_ signals: sigset_t, logger: Logger) {
        _ = Thread(name: "signals") { [self] in
            var signals = signals
            var number: Int32 = 0
            sigwait(&signals, &number)
            // Under the lock, so that `startCompleted` cannot happen in between.
            isStarting.withLock { isStarting in
                if isStarting { exitBeforeStart(logger) }
            }
            requests.send(())
            signals = forcingSignals()
            sigwait(&signals, &number)
            _exit(130)
        }
    }

    /// From now on a signal does not end the process at once.
    func startCompleted() { isStarting.withLock { $0 = false } }

    /// Returns `true` if a signal was received, or is within `milliseconds`.
    func wait(milliseconds: Int32) -> Bool { !requests.wait(milliseconds: milliseconds).isEmpty }
}

private func exitBeforeStart(_ logger: Logger) -> Never {
    logger.notice("Ferry was stopped during its start.")
    LogSink.standardError.finish(milliseconds: logMilliseconds)
    _exit(0)
}

/// Returns `true` after a signal, or `false` if a required part has ended or hangs.
private func waitForEnd(_ signals: TerminationSignals, logger: Logger, isHealthy: () -> Bool) -> Bool {
    var unhealthyCount = 0
    while true {
        let isRequested = signals.wait(milliseconds: 1_000)
        LogSink.standardError.flush()
        if isRequested {
            logger.notice("Ferry stops after a signal.")
            return true
        }
        unhealthyCount = isHealthy() ? 0 : unhealthyCount + 1
        // Not at the first time: a process that was stopped (SIGSTOP, a suspended machine) needs a moment to
        // recover.
        if unhealthyCount == 5 {
            logger.critical("Ferry stops because a required part has ended or hangs.")
            return false
        }
    }
}

/// Ends the process if a hanging part prevents it from stopping. Otherwise the service manager would kill it
/// later, and the private PostgreSQL with it.
private struct ShutdownWatchdog {
    private struct Order {
        let application: Application
        let status: Int32
        let seconds: Double
    }
    private let orders = Mailbox<Order>()

    /// The thread is created at the start: during a shutdown the process may not be able to create one.
    init() {
        _ = Thread(name: "watchdog") { [orders] in
            guard let order = orders.wait(milliseconds: -1).first else { return }
            var pause = timespec(tv_sec: Int(order.seconds), tv_nsec: 0)
            var rest = timespec()
            while nanosleep(&pause, &rest) != 0 { pause = rest }
            order.application.abandon()
            LogSink.standardError.finish(milliseconds: logMilliseconds)
            _exit(order.status)
        }
    }

    /// Ends the process with this status after `seconds`, unless it has ended by then.
    func end(_ application: Application, status: Int32, after seconds: Double) {
        orders.send(Order(application: application, status: status, seconds: seconds))
    }
}

/// Seconds for stopping a node, without its drain and the end of its private PostgreSQL.
private let stopSeconds = 40.0

/// Milliseconds that the reader of the log gets at the end.
private let logMilliseconds: Int32 = 1_000
