import Curl
import FerryCore
import Logging
import OpenSSL
import Synchronization
import Sys

/// Sends requests to the bucket of the content store, signed with the key of the node's settings, and knows
/// whether the store answers: while it does not, a thread asks it again and again. Not subject to the egress
/// rules, which are about the URLs of clients. Any thread.
final class ContentClient: Sendable {
    /// A request to the store.
    struct Request: Sendable {
        let method: String
        /// Key below the prefix of the cluster; `nil` for a request about the bucket.
        let key: String?
        /// Percent-encoded, without the question mark; `nil` for none.
        var query: String?
        var headers: [TransferRequest.Header] = []
        var body: [UInt8]?
        /// SHA-256 of the body in hexadecimal; `nil` if it is yet to be computed.
        var sha256: String?
        /// Bytes of the response's body at most.
        var byteLimit = 64 << 10

        init(_ method: String, _ key: String?) {
            self.method = method
            self.key = key
        }
    }

    /// Reason for which a request has failed.
    enum Failure: Error, Sendable {
        /// The store has no such object, or no such multipart upload.
        case missing
        /// The store did not answer, or not as it should; a later request may succeed.
        case unavailable(String)
        /// `StopSignal` was set.
        case stopped
    }

    private struct State {
        var correction = StoreCorrection()
        /// Reason for which the store cannot be used; `nil` while it can.
        var problem: String?
    }

    let bucket: ContentBucket
    let loop: CurlLoop
    private let key: AccessKey?
    private let clock: any WallClock
    private let logger: Logger
    private let state = Mutex(State())
    /// Gets a message when the store can no longer be used; closed by `stop`.
    private let losses = Mailbox<Void>()
    private let stopping = StopSignal()
    private let watch = Mutex<Thread?>(nil)
    /// Milliseconds between two requests that ask whether the store can be used again.
    private static let watchInterval: Int32 = 2_000
    /// Milliseconds before each repetition of a request: the store may be busy for a moment.
    private static let pauses: [Int32] = [50, 200, 800, 1_600]
    /// Milliseconds of a request beside those of its bytes; also the longest time without a byte of a
    /// response that is not kept in memory.
    private static let timeout = 30_000
    /// Bytes a millisecond that a request moves at least; a slower one fails.
    private static let leastRate = 50

    /// Starts threads. Throws if libcurl cannot be used.
    init(_ bucket: ContentBucket, key: AccessKey?, clock: any WallClock, logger: Logger) throws {
        self.bucket = bucket
        self.key = key
        self.clock = clock
        self.logger = logger
        loop = try CurlLoop(name: "content-store", keptConnections: 32)
        let thread = Thread(name: "content-watch") { [self] in
            while !losses.isClosed {
                // The outcome is noted.
                _ = try? send(.init("GET", ContentGeneration.key), stopping)
                if isAvailable {
                    _ = losses.wait(milliseconds: -1)
                } else {
                    _ = stopping.wait(milliseconds: Self.watchInterval)
                }
            }
        }
        watch.withLock { $0 = thread }
    }

    /// Ends all requests: those that run, and later ones. Waits for the threads.
    func stop() {
        losses.close()
        stopping.set()
        loop.stop()
        let thread = watch.withLock { thread in
            defer { thread = nil }
            return thread
        }
        thread?.join()
    }

    /// `false` after a failure, until a request succeeds again.
    var isAvailable: Bool { state.withLock { $0.problem == nil } }

    // MARK: Requests

    /// Sends a request and waits for its response, which is a success. Repeats it after each of `pauses` if
    /// that may help. Blocks, for each request at most as long as `timeout` and its bytes at `leastRate`
    /// take. Not for the thread of a loop.
    func send(_ request: Request, _ stop: StopSignal = .init()) throws(Failure) -> BufferedRequest.Response {
        var request = request
        if request.sha256 == nil, let body = request.body { request.sha256 = hexEncoded(Digest.of(body)) }
        var failure = Failure.unavailable("")
        guard !losses.isClosed else { throw .stopped }
        for pause in Self.pauses + [0] {
            do throws(Failure) {
                let response = try once(request, stop)
                noteAnswer(nil)
                return response
            } catch {
                if case .missing = error { noteAnswer(nil) }
                guard case .unavailable = error else { throw error }
                failure = error
            }
            if pause == 0 || losses.isClosed || stop.wait(milliseconds: pause) { break }
        }
        if stop.isSet || losses.isClosed { throw .stopped }
        if case .unavailable(let reason) = failure { noteAnswer(reason) }
        throw failure
    }

    /// Sends a request, and again as the store's correction says.
    private func once(_ request: Request, _ stop: StopSignal) throws(Failure) -> BufferedRequest.Response {
        while true {
            let (correction, sent) = try buffered(request)
            let result = stop.response(to: sent, on: loop)
            guard case .success(let response)? = result else {
                if case .failure(let failure)? = result { throw .unavailable("\(failure)") }
                throw .stopped
            }
            if (200..<300).contains(response.status), !response.isTruncated { return response }
            if correct(correction, response) { continue }
            throw failure(response)
        }
    }

    private func buffered(_ request: Request) throws(Failure) -> (StoreCorrection, BufferedRequest) {
        let correction = state.withLock { $0.correction }
        guard let url = url(request, correction) else { throw .unavailable("its address is invalid") }
        var sent = BufferedRequest(url: url.string)
        sent.method = request.method
        sent.headers = signed(request, url, correction)
        sent.body = request.body
        sent.byteLimit = request.byteLimit
        let byteCount = max(request.byteLimit, request.body?.count ?? 0)
        sent.deadline = Self.timeout + byteCount / Self.leastRate
        return (correction, sent)
    }

    /// Returns a request whose response is not kept in memory, with the correction that it was made with.
    func transferRequest(_ request: Request) -> (StoreCorrection, TransferRequest)? {
        let correction = state.withLock { $0.correction }
        guard let url = url(request, correction) else { return nil }
        var sent = TransferRequest(url: url.string)
        sent.method = request.method
        sent.headers = signed(request, url, correction)
        sent.connectTimeout = 5_000
        sent.idleTimeout = Self.timeout / 1_000
        return (correction, sent)
    }

    private func url(_ request: Request, _ correction: StoreCorrection) -> WebURL? {
        let address = request.key.map { bucket.object($0).address(correction) } ?? bucket.address(correction)
        guard let address, let query = request.query else { return address }
        return try? WebURL.parse("\(address.string)?\(query)")
    }

    private func signed(
        _ request: Request, _ url: WebURL, _ correction: StoreCorrection
    ) -> [TransferRequest.Header] {
        guard let key else { return request.headers }
        let signer = StoreSigner(region: bucket.object("").region(correction), credential: key)
        return request.headers
            + signer.fields(
                method: request.method, url: url, headers: request.headers,
                payloadHash: request.sha256 ?? StoreSigner.emptyPayload,
                at: clock.now() + correction.clockOffset)
    }

    /// Returns a URL that gives the object without a key for so many seconds; `nil` if the node has no key.
    /// `query`: percent-encoded parameters of the request.
    func presignedURL(of key: String, query: String, seconds: Int) -> String? {
        let correction = state.withLock { $0.correction }
        guard let credential = self.key, let url = bucket.object(key).address(correction) else { return nil }
        let signer = StoreSigner(region: bucket.object("").region(correction), credential: credential)
        return signer.presignedURL(
            url, query: query, seconds: seconds, at: clock.now() + correction.clockOffset)
    }

    // MARK: Responses

    /// Takes what a response says about requests to the store. Returns whether the request is to be sent
    /// again.
    func correct(_ correction: StoreCorrection, _ response: BufferedRequest.Response) -> Bool {
        correct(
            correction, response.status, region: response.header("x-amz-bucket-region"),
            date: response.header("date"))
    }

    func correct(_ correction: StoreCorrection, _ status: Int, region: String?, date: String?) -> Bool {
        guard
            let next = correction.corrected(
                by: status, region: region, date: date, of: bucket.object(""), now: clock.now())
        else { return false }
        state.withLock { $0.correction = next }
        return true
    }

    private func failure(_ response: BufferedRequest.Response) -> Failure {
        let document = StoreErrorDocument(response.body, token: key?.sessionToken)
        // A response to HEAD has no document.
        if response.status == 404, document.map({ ["NoSuchKey", "NoSuchUpload"].contains($0.code) }) ?? true {
            return .missing
        }
        let reason = document.map {
            $0.error(status: response.status, ifExistsFails: false, mayPass: true).message
        }
        return .unavailable(reason ?? "It answers with the status \(response.status).")
    }

    /// Notes whether the store can be used, and logs changes. `problem`: one sentence; `nil` after a success.
    func noteAnswer(_ problem: String?) {
        let before = state.withLock { state in
            defer { state.problem = problem }
            return state.problem
        }
        if let problem, before == nil {
            losses.send(())
            logger.error("The content store cannot be used.", metadata: ["error": "\(problem)"])
        } else if problem == nil, before != nil {
            logger.notice("The content store can be used again.")
        }
    }
}

/// Tells blocking requests to end. Any number of threads may wait for responses at once.
final class StopSignal: Sendable {
    typealias Response = Result<BufferedRequest.Response, BufferedRequest.Failure>

    private struct Running: Sendable {
        let request: RunningBufferedRequest
        let reply: Mailbox<Response?>
    }

    private struct State {
        var running: [Int: Running] = [:]
        var startedCount = 0
    }

    private let mailbox = Mailbox<Never>()
    private let state = Mutex(State())

    var isSet: Bool { mailbox.isClosed }

    /// Ends the waits for responses, and all later ones.
    func set() {
        mailbox.close()
        for one in state.withLock({ $0.running.values.map(\.self) }) {
            one.request.cancel()
            one.reply.send(nil)
        }
    }

    /// Waits. Returns `true` if the signal was set.
    func wait(milliseconds: Int32) -> Bool {
        _ = mailbox.wait(milliseconds: milliseconds)
        return mailbox.isClosed
    }

    /// Sends a request and waits for its response; `nil` if the signal was set.
    fileprivate func response(to request: BufferedRequest, on loop: CurlLoop) -> Response? {
        let reply = Mailbox<Response?>()
        let started = request.start(on: loop) { reply.send($0) }
        let number = state.withLock { state in
            state.startedCount += 1
            state.running[state.startedCount] = Running(request: started, reply: reply)
            return state.startedCount
        }
        defer { _ = state.withLock { $0.running.removeValue(forKey: number) } }
        if isSet { set() }
        return reply.wait(milliseconds: -1).first ?? nil
    }
}
