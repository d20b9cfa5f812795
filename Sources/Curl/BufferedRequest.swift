import CCurl
import Synchronization
import Sys

/// A small request whose response is kept in memory, with a limit on each part. Follows no redirects and
/// retries nothing.
public struct BufferedRequest: Sendable {
    /// URL of the request.
    public var url: String
    /// Method of the request.
    public var method = "GET"
    /// Header fields of the request.
    public var headers: [TransferRequest.Header] = []
    /// Body of the request; `nil` for none.
    public var body: [UInt8]?
    /// Bytes of the response's body to keep. If there are more, the transfer ends and `isTruncated` is
    /// `true`.
    public var byteLimit = 65_536
    /// Largest size in bytes of all response heads together, interim responses and trailers included. A
    /// larger one ends the request with `CurlError.tooLarge`.
    public static let headByteCountMax = 65_536
    /// Largest number of lines of all response heads together.
    public static let headLineCountMax = 200
    /// Milliseconds for the whole request.
    public var deadline = 30_000
    /// Milliseconds for name resolution, connection and TLS handshake together.
    public var connectTimeout = 5_000
    /// TLS settings, or `nil` for the default.
    public var tls: TransferRequest.TLS?
    /// Called before each connection and each request with the address; `false` blocks it. `nil` allows all.
    /// Called on the thread of the loop.
    public var allowsAddress: (@Sendable (SocketAddress) -> Bool)?

    /// Creates a GET request with default limits.
    public init(url: String) { self.url = url }

    /// A response in memory.
    public struct Response: Sendable {
        /// Status code of the final response.
        public let status: Int
        /// Header fields as received, without those of interim responses.
        public let headers: [TransferRequest.Header]
        /// At most `byteLimit` bytes of the body.
        public let body: [UInt8]
        /// `true` if the body had more than `byteLimit` bytes.
        public let isTruncated: Bool
        /// Measurements of the transfer.
        public let info: TransferInfo

        /// Returns the first value of the field `name`, without regard to case, or `nil` if there is none.
        public func header(_ name: String) -> String? { values(of: name).first }

        /// Returns the values of all fields `name`, without regard to case.
        public func values(of name: String) -> [String] {
            let name = name.lowercased()
            return headers.compactMap { $0.name.lowercased() == name ? $0.value : nil }
        }
    }

    /// Reason for which a request has no response.
    public enum Failure: Error, Sendable, CustomStringConvertible {
        case failed(CurlError, TransferInfo)
        /// `allowsAddress` returned `false`; the request was not sent.
        case blocked(SocketAddress)

        /// One sentence for the operator. It names the refused address, so tenants must not see it.
        public var description: String {
            switch self {
            case .failed(let error, _): error.text
            case .blocked(let address): "the address \(address) is not allowed"
            }
        }
    }

    /// Starts the request on `loop`. Calls `completion` once on the thread of the loop, or not at all after
    /// `cancel()`. If the loop has stopped, calls it at once on the caller's thread. Usable on any thread;
    /// never blocks.
    @discardableResult
    public func start(
        on loop: CurlLoop, _ completion: @escaping @Sendable (Result<Response, Failure>) -> Void
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

    /// Runs the request on the calling thread and waits for it. For command-line tools.
    public func perform() throws(Failure) -> Response {
        let result = Mailbox<Result<Response, Failure>>()
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
            // These methods send "Content-Length: 0" if there is no body (RFC 9110 §8.6).
            request.body = .known(0)
        }
        request.tls = tls
        request.totalTimeout = deadline
        request.connectTimeout = min(connectTimeout, deadline)
        return request
    }
}

/// A started request, which any thread may cancel. Unchecked: only the loop's thread uses the variables.
public final class RunningBufferedRequest: @unchecked Sendable {
    private let loop: CurlLoop
    fileprivate var transfer: Transfer?
    fileprivate weak var delegate: BufferedRequestDelegate?

    fileprivate init(_ loop: CurlLoop) { self.loop = loop }

    /// Ends the request without calling its completion, and closes its socket. Does nothing after its end.
    /// Usable on any thread; never blocks.
    public func cancel() { loop.perform { _ in self.transfer?.cancel() } }

    /// Ends the request with a timeout error if no final response has begun; the completion is called. Usable
    /// on any thread; never blocks.
    public func expireWithoutResponse() {
        loop.perform { _ in
            guard let transfer = self.transfer, let delegate = self.delegate, !delegate.hasResponse else {
                return
            }
            let info = transfer.info
            transfer.cancel()
            let error = CurlError(CURLE_OPERATION_TIMEDOUT, text: "no response began in time")
            delegate.finished(TransferOutcome(error: error, info: info, blockedAddress: nil))
        }
    }
}

/// A transfer on the calling thread (curl_easy_perform(3)).
public enum BlockingTransfer {
    /// Runs a transfer and returns after `delegate.finished`. Throws if an option is invalid; the delegate is
    /// not called then. The delegate must not pause: nothing could resume it.
    public static func perform(_ request: TransferRequest, delegate: any EasyDelegate) throws(CurlError) {
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
    private let request: BufferedRequest
    private let completion: @Sendable (Result<BufferedRequest.Response, BufferedRequest.Failure>) -> Void
    private var sent = 0
    private var headers: [TransferRequest.Header] = []
    private var received: [UInt8] = []
    private var isTruncated = false
    /// `true` once the head of the final response has begun.
    private(set) var hasResponse = false
    /// Sums over all heads, interim ones included.
    private var (headByteCount, headLineCount) = (0, 0)
    private var isHeadTooLarge = false

    init(
        _ request: BufferedRequest,
        _ completion: @escaping @Sendable (Result<BufferedRequest.Response, BufferedRequest.Failure>) -> Void
    ) {
        self.request = request
        self.completion = completion
    }

    func willConnect(to address: SocketAddress) -> Bool { request.allowsAddress?(address) ?? true }

    func willSend(to address: SocketAddress) -> Bool { request.allowsAddress?(address) ?? true }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        headByteCount += line.count + 2
        headLineCount += 1
        isHeadTooLarge =
            headByteCount > BufferedRequest.headByteCountMax
            || headLineCount > BufferedRequest.headLineCountMax
        if line.starts(with: "HTTP/".utf8) {
            headers = []
            // "HTTP/1.1 1xx": an interim response is not the final one (RFC 9110 §15.2).
            let status = line.drop { $0 != 0x20 }.dropFirst()
            hasResponse = status.first != UInt8(ascii: "1")
        } else if let colon = line.firstIndex(of: UInt8(ascii: ":")) {
            headers.append(.init(trimmedText(line[..<colon]), trimmedText(line[(colon + 1)...])))
        }
        return !isHeadTooLarge
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        let capacity = request.byteLimit - received.count
        received.append(contentsOf: bytes.prefix(capacity))
        isTruncated = bytes.count > capacity
        return isTruncated ? .abort : .proceed
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        let rest = (request.body ?? [])[sent...].prefix(buffer.count)
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
            // libcurl accepts a head that the end of the connection has cut short.
            completion(.failure(.failed(.withoutWholeHead, outcome.info)))
        } else {
            completion(
                .success(
                    BufferedRequest.Response(
                        status: outcome.info.status, headers: headers, body: received,
                        isTruncated: isTruncated,
                        info: outcome.info)))
        }
    }
}
