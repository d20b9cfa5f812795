import CCurl
import Synchronization
import Sys

/// One small request with its answer in memory. No redirects, no retries; every bound is named.
package struct BufferedRequest: Sendable {
    package var url: String
    package var method = "GET"
    package var headers: [TransferRequest.Header] = []
    /// Sent as it is; nil sends none.
    package var body: [UInt8]?
    /// Bytes of the answer's body to keep. More is not read: the answer then says `isTruncated`.
    package var byteLimit = 65_536
    /// Bytes and lines of the head of an answer, interim ones and trailers included; more ends the exchange
    /// with `CurlError.tooLarge`.
    package static let headByteCountMax = 65_536
    package static let headLineCountMax = 200
    /// Milliseconds for everything.
    package var deadline = 30_000
    /// Milliseconds for name resolution, connection and TLS handshake together.
    package var connectTimeout = 5_000
    /// Asked about every address before a byte is sent to it, on kept connections too; nil allows all. Called
    /// on the loop's thread.
    package var allowsAddress: (@Sendable (SocketAddress) -> Bool)?

    package init(url: String) { self.url = url }

    package struct Answer: Sendable {
        package let status: Int
        /// As received, interim answers left out.
        package let headers: [TransferRequest.Header]
        package let body: [UInt8]
        package let isTruncated: Bool
        package let info: TransferInfo

        /// The first header of that name, ignoring case.
        package func header(_ name: String) -> String? {
            let name = name.lowercased()
            return headers.first { $0.name.lowercased() == name }?.value
        }
    }

    package enum Failure: Error, Sendable, CustomStringConvertible {
        case failed(CurlError, TransferInfo)
        /// `allowsAddress` refused; the request was not sent.
        case blocked(SocketAddress)

        /// A sentence. Names the refused address, so it is for the operator and not for a tenant.
        package var description: String {
            switch self {
            case .failed(let error, _): error.text
            case .blocked(let address): "the address \(address) is not allowed"
            }
        }
    }

    /// Runs the request on `loop`; `completion` is called exactly once, on the loop's thread (or at once, on
    /// this one, when the loop has stopped), and not at all after a cancellation. Any thread, never waits.
    @discardableResult
    package func start(
        on loop: CurlLoop, _ completion: @escaping @Sendable (Result<Answer, Failure>) -> Void
    ) -> RunningBufferedRequest {
        let running = RunningBufferedRequest(loop)
        let accepted = loop.perform { multi in
            let delegate = BufferedRequestDelegate(self, completion)
            running.delegate = delegate
            do throws(CurlError) {
                running.transfer = try multi.start(request, delegate: delegate)
            } catch {
                completion(.failure(.failed(error, TransferInfo())))
            }
        }
        if !accepted {
            let error = CurlError(CURLE_ABORTED_BY_CALLBACK, text: "the loop has stopped")
            completion(.failure(.failed(error, TransferInfo())))
        }
        return running
    }

    /// Runs the request on this thread and waits for it. For command line tools.
    package func perform() throws(Failure) -> Answer {
        let result = Mailbox<Result<Answer, Failure>>()
        let delegate = BufferedRequestDelegate(self) { result.send($0) }
        do throws(CurlError) {
            try BlockingTransfer.perform(request, delegate: delegate)
        } catch {
            throw .failed(error, TransferInfo())
        }
        guard let first = result.take().first else {
            throw .failed(CurlError(CURLE_ABORTED_BY_CALLBACK), TransferInfo())
        }
        return try first.get()
    }

    private var request: TransferRequest {
        var request = TransferRequest(url: url)
        request.method = method
        request.headers = headers
        if let body {
            request.body = .known(Int64(body.count))
        } else if method == "POST" || method == "PUT" || method == "PATCH" {
            // "Content-Length: 0", which such methods owe (RFC 9110 section 8.6).
            request.body = .known(0)
        }
        request.totalTimeout = deadline
        request.connectTimeout = min(connectTimeout, deadline)
        return request
    }
}

/// A request on its way, for whoever may want to end it. Unchecked: what changes is touched on the loop's
/// thread alone.
package final class RunningBufferedRequest: @unchecked Sendable {
    private let loop: CurlLoop
    fileprivate var transfer: Transfer?
    fileprivate weak var delegate: BufferedRequestDelegate?

    fileprivate init(_ loop: CurlLoop) { self.loop = loop }

    /// Ends it and closes its socket. After its end it does nothing. Any thread, never waits.
    package func cancel() { loop.perform { _ in self.transfer?.cancel() } }

    /// The same while no answer has begun; the completion then hears that its time was over. Any thread,
    /// never waits.
    package func expireUnlessAnswered() {
        loop.perform { _ in
            guard let transfer = self.transfer, let delegate = self.delegate, !delegate.isAnswered else {
                return
            }
            let info = transfer.info
            transfer.cancel()
            let error = CurlError(CURLE_OPERATION_TIMEDOUT, text: "no answer had begun in time")
            delegate.finished(TransferOutcome(error: error, info: info, blockedAddress: nil))
        }
    }
}

/// A transfer on the calling thread (curl_easy_perform(3)).
package enum BlockingTransfer {
    /// Returns after `delegate.finished`. Throws what an impossible option says; the delegate is not called
    /// then. Pausing is not possible here: nobody could resume.
    package static func perform(_ request: TransferRequest, delegate: any EasyDelegate) throws(CurlError) {
        if case .failure(let unusable) = CurlRuntime.loaded {
            throw CurlError(CURLE_FAILED_INIT, text: unusable.reason)
        }
        let easy = try EasyHandle()
        try easy.configure(request)
        let context = EasyContext(delegate: delegate)
        easy.install(context, for: request)
        let code = curl_easy_perform(easy.raw)
        let outcome = easy.outcome(code, context)
        easy.reset()
        context.delegate = nil
        delegate.finished(outcome)
    }
}

private final class BufferedRequestDelegate: EasyDelegate {
    private let exchange: BufferedRequest
    private let completion: @Sendable (Result<BufferedRequest.Answer, BufferedRequest.Failure>) -> Void
    private var sent = 0
    private var headers: [TransferRequest.Header] = []
    private var received: [UInt8] = []
    private var isTruncated = false
    /// The head of a final answer has begun.
    private(set) var isAnswered = false
    /// Of all heads, interim ones included.
    private var (headByteCount, headLineCount) = (0, 0)
    private var isHeadTooLarge = false

    init(
        _ exchange: BufferedRequest,
        _ completion: @escaping @Sendable (Result<BufferedRequest.Answer, BufferedRequest.Failure>) -> Void
    ) {
        self.exchange = exchange
        self.completion = completion
    }

    func willConnect(to address: SocketAddress) -> Bool { exchange.allowsAddress?(address) ?? true }

    func willSend(to address: SocketAddress) -> Bool { exchange.allowsAddress?(address) ?? true }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        headByteCount += line.count + 2
        headLineCount += 1
        isHeadTooLarge =
            headByteCount > BufferedRequest.headByteCountMax
            || headLineCount > BufferedRequest.headLineCountMax
        if line.starts(with: "HTTP/".utf8) {
            headers = []
            // "HTTP/1.1 204": an interim answer is none (RFC 9110 section 15.2).
            let status = line.drop { $0 != 0x20 }.dropFirst()
            isAnswered = status.first != UInt8(ascii: "1")
        } else if let colon = line.firstIndex(of: UInt8(ascii: ":")) {
            headers.append(.init(trimmedText(line[..<colon]), trimmedText(line[(colon + 1)...])))
        }
        return !isHeadTooLarge
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        let room = exchange.byteLimit - received.count
        received.append(contentsOf: bytes.prefix(room))
        isTruncated = bytes.count > room
        return isTruncated ? .abort : .proceed
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        let rest = (exchange.body ?? [])[sent...].prefix(buffer.count)
        buffer.copyBytes(from: rest)
        sent += rest.count
        return .bytes(rest.count)
    }

    func rewindBody() -> Bool {
        sent = 0
        return true
    }

    func finished(_ outcome: TransferOutcome) {
        if let address = outcome.blockedAddress {
            completion(.failure(.blocked(address)))
        } else if isHeadTooLarge {
            let error = CurlError(code: CurlError.tooLarge, text: "the head of the response is too large")
            completion(.failure(.failed(error, outcome.info)))
        } else if let error = outcome.error, !isTruncated {
            completion(.failure(.failed(error, outcome.info)))
        } else if !outcome.info.hasWholeHead {
            // libcurl is content with a head that the connection's end has cut.
            completion(.failure(.failed(.withoutWholeHead, outcome.info)))
        } else {
            completion(
                .success(
                    BufferedRequest.Answer(
                        status: outcome.info.status, headers: headers, body: received,
                        isTruncated: isTruncated,
                        info: outcome.info)))
        }
    }
}
