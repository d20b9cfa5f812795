import CPostgres
import Glibc
import Sys

/// Moves bytes between libpq's buffers and the socket until a result is there or the deadline has passed.
struct ResultWait {
    let raw: OpaquePointer
    // Nanoseconds of `Sys.monotonicNanoseconds()`.
    private let start: Int64
    private let deadline: Int64
    private let impatience: ShutdownTimeout?

    /// Milliseconds after which a wait looks whether it has become impatient.
    private static let lookMilliseconds: Int32 = 1_000

    init(raw: OpaquePointer, timeout: Duration, _ impatience: ShutdownTimeout?) {
        self.raw = raw
        self.impatience = impatience
        start = Sys.monotonicNanoseconds()
        deadline = start + timeout.nanoseconds
    }

    /// The next result of a simple query; nil when there are no more. The caller frees it.
    func nextResult() throws(PostgresError) -> OpaquePointer? {
        try waitUntilReady()
        return PQgetResult(raw)
    }

    /// The next result of the pipeline; nil at its synchronisation point. The caller frees it.
    func nextResultOfPipeline() throws(PostgresError) -> OpaquePointer? {
        var endCount = 0
        while true {
            try waitUntilReady()
            guard let result = PQgetResult(raw) else {
                // One nil ends each statement's results; more of them mean that nothing can follow.
                endCount += 1
                if endCount > 2 || PQstatus(raw) != CONNECTION_OK { throw lost() }
                continue
            }
            guard PQresultStatus(result) == PGRES_PIPELINE_SYNC else { return result }
            PQclear(result)
            return nil
        }
    }

    /// Returns once PQgetResult will not block. Reads while it writes: a server that waits for us to read
    /// would never read what we write.
    private func waitUntilReady() throws(PostgresError) {
        while true {
            let unsent = PQflush(raw)
            if PQisBusy(raw) == 0 { return }
            var descriptor = pollfd(fd: PQsocket(raw), events: Int16(POLLIN), revents: 0)
            guard unsent >= 0, descriptor.fd >= 0 else { throw lost() }
            if unsent == 1 { descriptor.events |= Int16(POLLOUT) }
            let end = impatience?.end(ofWaitFrom: start, until: deadline) ?? deadline
            let rest = end - Sys.monotonicNanoseconds()
            guard rest > 0 else {
                throw PostgresError(.timedOut, message: "the server did not answer in time")
            }
            let pause = min(Duration.nanoseconds(rest).milliseconds, Self.lookMilliseconds)
            let ready = poll(&descriptor, 1, pause)
            if ready > 0, descriptor.revents & ~Int16(POLLOUT) != 0, PQconsumeInput(raw) == 0 {
                // What arrived before the end may hold the server's reason.
                if PQisBusy(raw) == 0 { return }
                throw lost()
            }
        }
    }

    private func lost() -> PostgresError {
        PostgresError(.connectionLost, message: Connection.message(of: raw))
    }
}
