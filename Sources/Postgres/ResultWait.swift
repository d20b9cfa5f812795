import CPostgres
import Glibc
import Sys

/// Exchanges bytes between libpq's buffers and the socket until a result is complete or the deadline has
/// passed. Does not own `raw`.
struct ResultWait {
    let raw: OpaquePointer
    // Nanoseconds of `Sys.monotonicNanoseconds()`.
    private let start: Int64
    private let deadline: Int64
    private let shutdownTimeout: ShutdownTimeout?

    /// Interval in milliseconds at which a wait checks `ShutdownTimeout`.
    private static let pollMilliseconds: Int32 = 1_000

    init(raw: OpaquePointer, timeout: Duration, _ shutdownTimeout: ShutdownTimeout?) {
        self.raw = raw
        self.shutdownTimeout = shutdownTimeout
        start = Sys.monotonicNanoseconds()
        deadline = start + timeout.nanoseconds
    }

    /// Returns the next result of a simple query, owned by the caller, or `nil` after the last one.
    func nextResult() throws(PostgresError) -> OpaquePointer? {
        try waitUntilReady()
        return PQgetResult(raw)
    }

    /// Returns the next result of the pipeline, owned by the caller, or `nil` at its synchronisation point.
    func nextResultOfPipeline() throws(PostgresError) -> OpaquePointer? {
        var endCount = 0
        while true {
            try waitUntilReady()
            guard let result = PQgetResult(raw) else {
                // One nil ends the results of each statement. A third nil in a row means that the connection
                // is lost.
                endCount += 1
                if endCount > 2 || PQstatus(raw) != CONNECTION_OK { throw lost() }
                continue
            }
            guard PQresultStatus(result) == PGRES_PIPELINE_SYNC else { return result }
            PQclear(result)
            return nil
        }
    }

    /// Returns when PQgetResult will not block. Reads while it writes: a server that waits for the client to
    /// read does not read either.
    private func waitUntilReady() throws(PostgresError) {
        while true {
            let unsent = PQflush(raw)
            if PQisBusy(raw) == 0 { return }
            var descriptor = pollfd(fd: PQsocket(raw), events: Int16(POLLIN), revents: 0)
            guard unsent >= 0, descriptor.fd >= 0 else { throw lost() }
            if unsent == 1 { descriptor.events |= Int16(POLLOUT) }
            let end = shutdownTimeout?.end(ofWaitFrom: start, until: deadline) ?? deadline
            let rest = end - Sys.monotonicNanoseconds()
            guard rest > 0 else {
                throw PostgresError(.timedOut, message: "the server did not respond in time")
            }
            let pause = min(Duration.nanoseconds(rest).milliseconds, Self.pollMilliseconds)
            let ready = poll(&descriptor, 1, pause)
            if ready > 0, descriptor.revents & ~Int16(POLLOUT) != 0, PQconsumeInput(raw) == 0 {
                // Input that arrived before the connection ended may contain the server's reason.
                if PQisBusy(raw) == 0 { return }
                throw lost()
            }
        }
    }

    private func lost() -> PostgresError {
        PostgresError(.connectionLost, message: Connection.message(of: raw))
    }
}
