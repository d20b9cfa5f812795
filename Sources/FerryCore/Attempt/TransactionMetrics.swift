/// Measurements of one request and its response inside an attempt (URLSessionTaskTransactionMetrics).
public struct TransactionMetrics: Sendable, Equatable {
    /// A request.
    public struct Request: Sendable, Equatable {
        /// Method.
        public var method: String
        /// URL without user information and fragment.
        public var url: String
        /// Creates a request.
        public init(method: String, url: String) {
            self.method = method
            self.url = url
        }
    }

    /// Points in time of a transaction in their usual order; the raw value is the bit in the packed form.
    public enum Moment: Int, Sendable, CaseIterable {
        case domainLookupStart, domainLookupEnd, connectStart, secureConnectionStart, secureConnectionEnd
        /// End of the connection setup including the TLS handshake.
        case connectEnd
        case requestStart, requestEnd, responseStart, responseEnd
    }

    /// Times of the moments; `nil` for a moment that did not occur.
    public struct Moments: Sendable, Equatable {
        private var offsets = InlineArray<10, Int64>(repeating: -1)
        /// Creates moments without times.
        public init() {}

        /// Microseconds after the start of the transaction.
        public subscript(moment: Moment) -> Int64? {
            get { offsets[moment.rawValue] < 0 ? nil : offsets[moment.rawValue] }
            set { offsets[moment.rawValue] = newValue.map { max(0, $0) } ?? -1 }
        }

        /// Compares all moments.
        public static func == (a: Self, b: Self) -> Bool {
            Moment.allCases.allSatisfy { a[$0] == b[$0] }
        }
    }

    /// Protocol of a connection; the raw value is stored.
    public enum NetworkProtocol: UInt8, ShownChoice {
        case http10 = 1
        case http11, http2, http3
        /// Name by ALPN (RFC 7301).
        public var name: String {
            switch self {
            case .http10: "http/1.0"
            case .http11: "http/1.1"
            case .http2: "h2"
            case .http3: "h3"
            }
        }
    }

    /// Address and port of one end of a connection.
    public struct Endpoint: Sendable, Equatable {
        /// Numeric IP address.
        public var address: String
        /// Port.
        public var port: UInt16
        /// Creates an endpoint.
        public init(address: String, port: UInt16) {
            self.address = address
            self.port = port
        }
    }

    /// Parameters of a TLS connection.
    public struct TLS: Sendable, Equatable {
        /// Version, such as `TLSv1.3`.
        public var protocolVersion: String
        /// Cipher suite, such as `TLS_AES_256_GCM_SHA384`.
        public var cipherSuite: String
        /// Creates parameters.
        public init(protocolVersion: String, cipherSuite: String) {
            self.protocolVersion = protocolVersion
            self.cipherSuite = cipherSuite
        }
    }

    /// Numbers of bytes of a transaction.
    public struct ByteCounts: Sendable, Equatable {
        /// Bytes of the request's fields and body.
        public var requestHeader: Int64 = 0
        public var requestBody: Int64 = 0
        /// Bytes of the response's fields.
        public var responseHeader: Int64 = 0
        /// Bytes of the response's body as received, before decoding.
        public var responseBody: Int64 = 0
        /// Bytes of the response's body after decoding.
        public var decodedBody: Int64 = 0
        /// Creates counts of 0.
        public init() {}
    }

    /// The request, or `nil` if it was the job's own as the attempt began (`TransactionLog.OwnRequest`).
    public var request: Request?
    /// Status code, or `nil` if there was no response.
    public var status: Int?
    /// Microseconds from the start of the attempt to the start of the transaction.
    public var fetchStart: Int64
    /// Times within the transaction.
    public var moments = Moments()
    /// Protocol, or `nil` if not known.
    public var networkProtocol: NetworkProtocol?
    /// `true` if the connection was to a proxy.
    public var isProxyConnection = false
    /// `true` if the connection was used before.
    public var isReusedConnection = false
    /// Local end of the connection.
    public var local: Endpoint?
    /// Remote end of the connection; the proxy if there is one.
    public var remote: Endpoint?
    /// Parameters of TLS, or `nil` without TLS.
    public var tls: TLS?
    /// Numbers of bytes.
    public var byteCounts = ByteCounts()

    /// Creates metrics; `fetchStart` in microseconds.
    public init(fetchStart: Int64) { self.fetchStart = max(0, fetchStart) }
}

/// The transactions of one attempt, in the order of their ends. They are packed when they are added; an empty
/// log allocates nothing.
public struct TransactionLog: Sendable, Equatable {
    /// Packed transactions.
    public private(set) var bytes: [UInt8] = []
    /// Number of transactions in `bytes`.
    public private(set) var count = 0
    /// Number of transactions dropped because there were more than `Limits.transactionCountMax`.
    public private(set) var omittedCount = 0
    /// Bytes of the bodies of all requests and responses as sent and received, those of dropped transactions
    /// included.
    public private(set) var bodyByteCount: Int64 = 0
    /// Number of redirects that were followed.
    public var redirectCount = 0
    /// URLs that contain secrets, which are redacted in `bytes`.
    public private(set) var secretURLs: [SecretURL] = []
    /// Starts of the last transactions in `bytes`: those that are dropped if there are too many.
    private var lastStarts: [Int] = []
    /// Number of first transactions, which are never dropped.
    private static let firstCount = Limits.transactionCountMax / 2

    /// The job's own request as the attempt began.
    private let own: OwnRequest?
    /// `true` if a transaction was added that names no request.
    private var hasOwn = false

    /// A URL and the index of its transaction.
    public struct SecretURL: Sendable, Equatable {
        public let place: Int
        public let url: String

        /// Stands for the index of the job's own request.
        static let ownPlace = Int.max
    }

    /// The job's own request. Transactions that carry it out do not name it: the attempt does, or the fields
    /// of a job that has ended.
    public struct OwnRequest: Sendable, Equatable {
        /// Method.
        public let method: String
        /// URL.
        public let url: WebURL
        /// Creates the own request of a job with this request.
        public init(_ request: JobSpec.RequestSpec) { (method, url) = (request.method, request.webURL) }
    }

    /// Creates an empty log. `own`: the job's own request, or `nil` if every transaction names its request.
    public init(own: OwnRequest? = nil) { self.own = own }

    /// Returns the request of the transactions that name none; `nil` if all do, or if it is `final`: the own
    /// request of the job that the attempt ends, which no edit changes any more.
    func ownRequest(unless final: OwnRequest?) -> TransactionMetrics.Request? {
        guard let own, hasOwn, own != final else { return nil }
        return TransactionMetrics.Request(method: own.method, url: own.url.string)
    }

    /// Adds a transaction. If the log is full, drops the oldest one of the last half.
    public mutating func append(_ metrics: TransactionMetrics) {
        if count == Limits.transactionCountMax { dropOne() }
        if bytes.isEmpty { bytes.reserveCapacity(96) }
        if count >= Self.firstCount { lastStarts.append(bytes.count) }
        count += 1
        bodyByteCount += metrics.byteCounts.requestBody + metrics.byteCounts.responseBody
        guard let request = metrics.request else {
            hasOwn = true
            return metrics.pack(into: &bytes)
        }
        var redacted = metrics
        redacted.request = secretURLs.redact(request, at: count - 1)
        redacted.pack(into: &bytes)
    }

    private mutating func dropOne() {
        let start = lastStarts.removeFirst()
        let byteCount = (lastStarts.first ?? bytes.count) - start
        bytes.removeSubrange(start..<(start + byteCount))
        for index in lastStarts.indices { lastStarts[index] -= byteCount }
        secretURLs = secretURLs.compactMap { secret in
            if secret.place == Self.firstCount { return nil }
            return SecretURL(
                place: secret.place > Self.firstCount ? secret.place - 1 : secret.place, url: secret.url)
        }
        count -= 1
        omittedCount += 1
    }
}

extension [TransactionLog.SecretURL] {
    /// Returns the request of the transaction with this index without the secrets of its URL, which is
    /// added.
    mutating func redact(
        _ request: TransactionMetrics.Request, at place: Int
    ) -> TransactionMetrics.Request {
        guard !RedactedURL.hasNoSecrets(request.url) else { return request }
        append(.init(place: place, url: request.url))
        return TransactionMetrics.Request(method: request.method, url: RedactedURL.text(of: request.url))
    }

    /// Returns the form that is encrypted.
    func packed() -> [UInt8] {
        var bytes: [UInt8] = []
        for one in self {
            bytes.appendPacked(UInt64(one.place))
            bytes.appendPacked(one.url)
        }
        return bytes
    }

    /// Reads what `packed()` returned.
    init(packed bytes: [UInt8]) throws(PackedReader.Damage) {
        self = []
        var reader = PackedReader(bytes)
        while !reader.isAtEnd {
            append(.init(place: try reader.number(Int.self), url: try reader.text()))
        }
    }
}

// MARK: Packing

extension TransactionMetrics {
    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let isProxyConnection = Flags(rawValue: 1)
        static let isReusedConnection = Flags(rawValue: 2)
        static let hasRequest = Flags(rawValue: 4)
        static let hasLocal = Flags(rawValue: 8)
        static let hasRemote = Flags(rawValue: 16)
        static let hasTLS = Flags(rawValue: 32)
        static let isDecoded = Flags(rawValue: 64)
    }

    private var flags: Flags {
        var flags: Flags = []
        if isProxyConnection { flags.insert(.isProxyConnection) }
        if isReusedConnection { flags.insert(.isReusedConnection) }
        if request != nil { flags.insert(.hasRequest) }
        if local != nil { flags.insert(.hasLocal) }
        if remote != nil { flags.insert(.hasRemote) }
        if tls != nil { flags.insert(.hasTLS) }
        if byteCounts.decodedBody != byteCounts.responseBody { flags.insert(.isDecoded) }
        return flags
    }

    /// Appends the packed form to `bytes`.
    fileprivate func pack(into bytes: inout [UInt8]) {
        bytes.append(flags.rawValue)
        bytes.append(networkProtocol?.rawValue ?? 0)
        bytes.appendPacked(UInt64(max(0, status ?? 0)))
        bytes.appendPacked(UInt64(fetchStart))
        packMoments(into: &bytes)
        bytes.appendPacked(UInt64(max(0, byteCounts.requestHeader)))
        bytes.appendPacked(UInt64(max(0, byteCounts.requestBody)))
        bytes.appendPacked(UInt64(max(0, byteCounts.responseHeader)))
        bytes.appendPacked(UInt64(max(0, byteCounts.responseBody)))
        if byteCounts.decodedBody != byteCounts.responseBody {
            bytes.appendPacked(UInt64(max(0, byteCounts.decodedBody)))
        }
        if let request {
            bytes.appendPacked(request.method)
            bytes.appendPacked(request.url)
        }
        if let local { Self.pack(local, into: &bytes) }
        if let remote { Self.pack(remote, into: &bytes) }
        if let tls {
            bytes.appendPacked(tls.protocolVersion)
            bytes.appendPacked(tls.cipherSuite)
        }
    }

    private static func pack(_ endpoint: Endpoint, into bytes: inout [UInt8]) {
        bytes.appendPacked(endpoint.address)
        bytes.appendPacked(UInt64(endpoint.port))
    }

    /// Appends a bit set of the moments, then each as the difference to the one before.
    private func packMoments(into bytes: inout [UInt8]) {
        var present: UInt64 = 0
        for moment in Moment.allCases where moments[moment] != nil { present |= 1 << UInt64(moment.rawValue) }
        bytes.appendPacked(present)
        var previous: Int64 = 0
        for moment in Moment.allCases {
            guard let offset = moments[moment] else { continue }
            bytes.appendPacked(signed: offset - previous)
            previous = offset
        }
    }

    /// Reads what `pack(into:)` appended.
    init(_ reader: inout PackedReader) throws(PackedReader.Damage) {
        let flags = Flags(rawValue: try reader.byte())
        networkProtocol = NetworkProtocol(rawValue: try reader.byte())
        let status = try reader.number(Int.self)
        self.status = status == 0 ? nil : status
        fetchStart = try reader.number(Int64.self)
        let present = try reader.number()
        var previous: Int64 = 0
        for moment in Moment.allCases where present & 1 << UInt64(moment.rawValue) != 0 {
            previous &+= try reader.signed()
            moments[moment] = previous
        }
        byteCounts.requestHeader = try reader.number(Int64.self)
        byteCounts.requestBody = try reader.number(Int64.self)
        byteCounts.responseHeader = try reader.number(Int64.self)
        byteCounts.responseBody = try reader.number(Int64.self)
        byteCounts.decodedBody =
            flags.contains(.isDecoded) ? try reader.number(Int64.self) : byteCounts.responseBody
        isProxyConnection = flags.contains(.isProxyConnection)
        isReusedConnection = flags.contains(.isReusedConnection)
        if flags.contains(.hasRequest) {
            request = Request(method: try reader.text(), url: try reader.text())
        }
        if flags.contains(.hasLocal) { local = try Self.endpoint(&reader) }
        if flags.contains(.hasRemote) { remote = try Self.endpoint(&reader) }
        if flags.contains(.hasTLS) {
            tls = TLS(protocolVersion: try reader.text(), cipherSuite: try reader.text())
        }
    }

    private static func endpoint(_ reader: inout PackedReader) throws(PackedReader.Damage) -> Endpoint {
        Endpoint(address: try reader.text(), port: try reader.number(UInt16.self))
    }
}
