import FerryCore
import Glibc
import Logging
import Synchronization
import Sys

/// Logs why attempts failed, with details that clients do not see: one line each, and at most
/// `linesPerSecondMax` a second, since a host or a disk can make thousands fail. Any thread.
final class FailureLog: Sendable {
    private struct Window {
        var second: Int64 = 0
        var lineCount = 0
        var suppressedCount = 0
    }
    static let linesPerSecondMax = 20

    private let logger: Logger
    private let window = Mutex(Window())

    init(_ logger: Logger) { self.logger = logger }

    func note(_ result: AttemptResult) {
        guard case .failed(let error, _) = result.outcome, logger.logLevel <= .info,
            let suppressedCount = admit()
        else { return }
        let attempt = result.attempt
        var metadata: Logger.Metadata = [
            "job.id": "\(attempt.job)", "attempt": "\(attempt.number)", "tenant": "\(attempt.tenant)",
            "origin": "\(attempt.origin)", "code": "\(error.code.rawValue)",
            "phase": "\(error.phase.rawValue)", "retryable": "\(error.isRetryable)",
            "detail": "\(error.message)",
        ]
        if let status = result.response?.status { metadata["status"] = "\(status)" }
        if let diagnostics = result.trace?.diagnostics {
            if diagnostics.curlCode != 0 {
                metadata["curl.code"] = "\(diagnostics.curlCode)"
                metadata["curl.message"] = "\(diagnostics.curlMessage)"
            }
            if diagnostics.osError != 0 {
                metadata["os.error"] = "\(String(cString: strerror(diagnostics.osError)))"
            }
        }
        if suppressedCount > 0 { metadata["suppressed"] = "\(suppressedCount)" }
        logger.info("attempt failed", metadata: metadata)
    }

    /// Returns how many lines were left out since the last one; `nil` if this one is left out too.
    private func admit() -> Int? {
        let second = monotonicNanoseconds() / 1_000_000_000
        return window.withLock { window in
            if window.second != second { (window.second, window.lineCount) = (second, 0) }
            guard window.lineCount < Self.linesPerSecondMax else {
                window.suppressedCount += 1
                return nil
            }
            window.lineCount += 1
            defer { window.suppressedCount = 0 }
            return window.suppressedCount
        }
    }
}
