/// One request and its answer inside an attempt, as it was measured (URLSessionTaskTransactionMetrics).
package struct TransactionMetrics: Sendable, Equatable {
    package struct Request: Sendable, Equatable {
        package var method: String
        /// Without user information and fragment.
        package var url: String
        package init(method: String, url: String) {
            self.method = method
            self.url = url
        }
    }

    /// In the order in which they usually come; the raw value is the place in a row.
    package enum Moment: Int, Sendable, CaseIterable {
        case domainLookupStart, domainLookupEnd, connectStart, secureConnectionStart, secureConnectionEnd
        /// Includes the TLS handshake.
        case connectEnd
        case requestStart, requestEnd, responseStart, responseEnd
    }

    /// When things happened; nil for what did not.
    package struct Moments: Sendable, Equatable {
        private var offsets = InlineArray<10, Int64>(repeating: -1)
        package init() {}

        /// Microseconds after the request was begun.
        package subscript(moment: Moment) -> Int64? {
            get { offsets[moment.rawValue] < 0 ? nil : offsets[moment.rawValue] }
            set { offsets[moment.rawValue] = newValue.map { max(0, $0) } ?? -1 }
        }

        package static func == (a: Self, b: Self) -> Bool {
            Moment.allCases.allSatisfy { a[$0] == b[$0] }
        }
    }

    /// What ALPN calls it (RFC 7301).
    package enum NetworkProtocol: UInt8, Sendable, CaseIterable {
        case http10 = 1
        case http11, http2, http3
        package var name: String {
            switch self {
            case .http10: "http/1.0"
            case .http11: "http/1.1"
            case .http2: "h2"
            case .http3: "h3"
            }
        }
    }

    package struct Endpoint: Sendable, Equatable {
        /// Numeric.
        package var address: String
        package var port: UInt16
        package init(address: String, port: UInt16) {
            self.address = address
            self.port = port
        }
    }

    package struct TLS: Sendable, Equatable {
        /// `TLSv1.3`
        package var protocolVersion: String
        /// `TLS_AES_256_GCM_SHA384`
        package var cipherSuite: String
        package init(protocolVersion: String, cipherSuite: String) {
            self.protocolVersion = protocolVersion
            self.cipherSuite = cipherSuite
        }
    }

    package struct ByteCounts: Sendable, Equatable {
        package var requestHeader: Int64 = 0
        package var requestBody: Int64 = 0
        package var responseHeader: Int64 = 0
        /// As it came, still coded.
        package var responseBody: Int64 = 0
        /// As it was handed on.
        package var decodedBody: Int64 = 0
        package init() {}
    }

    /// Nil: the job's own request.
    package var request: Request?
    /// Of the answer; nil when none came.
    package var status: Int?
    /// Microseconds after the attempt's start.
    package var fetchStart: Int64
    package var moments = Moments()
    package var networkProtocol: NetworkProtocol?
    package var isProxyConnection = false
    package var isReusedConnection = false
    package var local: Endpoint?
    /// The proxy's when there is one.
    package var remote: Endpoint?
    package var tls: TLS?
    package var byteCounts = ByteCounts()

    package init(fetchStart: Int64) { self.fetchStart = max(0, fetchStart) }
}

/// The transactions of one attempt in the order of their ends, packed as they come: nothing is allocated
/// before the first.
package struct TransactionLog: Sendable, Equatable {
    package private(set) var bytes: [UInt8] = []
    package private(set) var count = 0
    /// How many are not in here, because there were more than `Limits.transactionCountMax`.
    package private(set) var omittedCount = 0
    /// How many redirects were followed.
    package var redirectCount = 0
    /// What is hidden in `bytes`: URLs that are not harmless, by the places of their transactions.
    package private(set) var secretURLs: [SecretURL] = []
    private var lastStart = 0

    package struct SecretURL: Sendable, Equatable {
        package let place: Int
        package let url: String
    }

    package init() {}

    /// The first ones stay, and the last.
    package mutating func append(_ metrics: TransactionMetrics) {
        if count == Limits.transactionCountMax {
            bytes.removeSubrange(lastStart...)
            omittedCount += 1
            secretURLs.removeAll { $0.place == count - 1 }
        } else {
            count += 1
        }
        if bytes.isEmpty { bytes.reserveCapacity(96) }
        lastStart = bytes.count
        guard let url = metrics.request?.url, !RedactedURL.isHarmless(url) else {
            return metrics.pack(into: &bytes)
        }
        secretURLs.append(SecretURL(place: count - 1, url: url))
        var redacted = metrics
        redacted.request?.url = RedactedURL.text(of: url)
        redacted.pack(into: &bytes)
    }
}

extension [TransactionLog.SecretURL] {
    /// The form that is encrypted.
    func packed() -> [UInt8] {
        var bytes: [UInt8] = []
        for one in self {
            bytes.appendPacked(UInt64(one.place))
            bytes.appendPacked(one.url)
        }
        return bytes
    }

    init(packed bytes: [UInt8]) throws(PackedReader.Damage) {
        self = []
        var reader = PackedReader(bytes)
        while !reader.isAtEnd {
            append(.init(place: try reader.number(Int.self), url: try reader.text()))
        }
    }
}

extension TransactionLog {
    /// How long the first request took to connect, without TLS; nil when it used a kept connection or did
    /// not get that far.
    package var firstConnectSeconds: Double? {
        var reader = PackedReader(bytes)
        guard let first = try? TransactionMetrics(&reader), let start = first.moments[.connectStart],
            let end = first.moments[.secureConnectionStart] ?? first.moments[.connectEnd]
        else { return nil }
        return Double(end - start) / 1_000_000
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

    /// Which there are, then each as its distance from the one before.
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
