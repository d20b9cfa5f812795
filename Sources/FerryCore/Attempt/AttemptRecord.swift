/// An attempt as `GET /v1/jobs/{id}/attempts` shows it. A job's row stores each ended one as packed bytes.
public struct AttemptRecord: Sendable, Equatable {
    /// Outcome of an attempt; the raw value is stored.
    public enum Outcome: UInt8, ShownChoice {
        case succeeded = 1
        case failed, cancelled
        /// The node returned the lease. No attempt was used.
        case released
        /// The node died or lost the database; what the attempt did is not known.
        case lost
        /// A client suspended the job.
        case suspended
        /// The attempt asked a question that a client must answer.
        case asked
        /// Name in the API.
        public var name: String { "\(self)" }
    }

    /// Details of a failure for operators: the message of libcurl and the error of the operating system. May
    /// contain addresses.
    public struct Diagnostics: Sendable, Equatable {
        /// Code of libcurl-errors(3), or 0 if the operating system and not libcurl reported the error.
        public var curlCode: Int
        /// Message of libcurl, at most 256 bytes.
        public var curlMessage: String
        /// Code of errno(3), or 0.
        public var osError: Int32
        /// Creates diagnostics; a longer message is truncated.
        public init(curlCode: Int, curlMessage: String, osError: Int32) {
            self.curlCode = curlCode
            self.curlMessage = String(decoding: curlMessage.utf8.prefix(256), as: UTF8.self)
            self.osError = osError
        }
    }

    /// Number of the attempt.
    public var number: Int32
    /// The node that ran it, or `nil` if not known.
    public var node: NodeID?
    /// Start, or `nil` if no longer known.
    public var startedAt: Timestamp?
    /// End, or `nil` if the attempt runs.
    public var finishedAt: Timestamp?
    /// Outcome, or `nil` if the attempt runs.
    public var outcome: Outcome?
    /// The error, or `nil` if there was none.
    public var error: Stored<ErrorRecord>?
    /// Details for operators, or `nil` if there are none.
    public var diagnostics: Diagnostics?
    /// Bytes that are left for a later attempt or another job.
    public var partialDownload: PartialDownload?
    /// Transactions in the order of their ends.
    public var transactions: [TransactionMetrics] = []
    /// Number of transactions that were not stored.
    public var omittedTransactionCount = 0
    /// Number of redirects that were followed.
    public var redirectCount = 0
    /// The request of transactions that name none, without the secrets of its URL; `nil` if the job's fields
    /// tell it.
    private var own: TransactionMetrics.Request?
    /// Encrypted URLs of `transactions` and `own` that contain secrets, or `nil` if there are none.
    private var sealedURLs: [UInt8]?
    /// URLs with secrets of a running attempt, in memory only.
    private var secretURLs: [TransactionLog.SecretURL] = []

    /// Creates the record of a running attempt.
    public init(number: Int32, node: NodeID?, startedAt: Timestamp?) {
        self.number = number
        self.node = node
        self.startedAt = startedAt
    }
}

/// Measurements of an attempt that has begun.
public struct AttemptTrace: Sendable, Equatable {
    /// Start and end.
    public var startedAt: Timestamp
    public var finishedAt: Timestamp
    /// The transactions.
    public var transactions: TransactionLog
    /// Details of the last request that libcurl reported as failed.
    public var diagnostics: AttemptRecord.Diagnostics?
    /// Creates a trace.
    public init(
        startedAt: Timestamp, finishedAt: Timestamp, transactions: TransactionLog = TransactionLog(),
        diagnostics: AttemptRecord.Diagnostics? = nil
    ) {
        self.startedAt = startedAt
        self.finishedAt = finishedAt
        self.transactions = transactions
        self.diagnostics = diagnostics
    }
}

/// State of an attempt that runs on this node.
public struct AttemptSnapshot: Sendable {
    /// Number, start and transactions so far.
    public let number: Int32
    public let startedAt: Timestamp
    public let transactions: TransactionLog
    /// Creates a snapshot.
    public init(number: Int32, startedAt: Timestamp, transactions: TransactionLog) {
        self.number = number
        self.startedAt = startedAt
        self.transactions = transactions
    }
}

// MARK: Packing

extension AttemptRecord {
    /// First byte, which tells the format of the rest.
    private enum Format: UInt8 {
        case trace = 1
        /// Number (4 bytes), node (16) and the time of discovery in microseconds (8), big-endian.
        case lost = 2
    }

    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let hasNode = Flags(rawValue: 1)
        static let hasError = Flags(rawValue: 2)
        static let hasDiagnostics = Flags(rawValue: 4)
        static let hasRedirects = Flags(rawValue: 8)
        /// Read by the SQL function kept_attempt (migrations/0001_baseline.sql).
        static let hasPartialDownload = Flags(rawValue: 16)
        static let hasSealedURLs = Flags(rawValue: 32)
        static let hasOwnRequest = Flags(rawValue: 64)
    }

    /// Returns the packed bytes of an ended attempt. `node`: `nil` if the reader will know it. `final`:
    /// the own request of the job if the attempt ends it.
    public static func packed(
        number: Int32, node: NodeID?, _ trace: AttemptTrace, _ outcome: Outcome, error: Stored<ErrorRecord>?,
        partialDownload: PartialDownload? = nil, final: TransactionLog.OwnRequest? = nil, _ seal: SecretSeal
    ) -> [UInt8] {
        let diagnostics = outcome == .failed ? trace.diagnostics : nil
        var flags: Flags = []
        if node != nil { flags.insert(.hasNode) }
        if error != nil { flags.insert(.hasError) }
        if diagnostics != nil { flags.insert(.hasDiagnostics) }
        if trace.transactions.redirectCount > 0 { flags.insert(.hasRedirects) }
        if partialDownload != nil { flags.insert(.hasPartialDownload) }
        var secretURLs = trace.transactions.secretURLs
        let own = trace.transactions.ownRequest(unless: final)
            .map { secretURLs.redact($0, at: TransactionLog.SecretURL.ownPlace) }
        if own != nil { flags.insert(.hasOwnRequest) }
        if !secretURLs.isEmpty { flags.insert(.hasSealedURLs) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(64 + trace.transactions.bytes.count + (error?.json.count ?? 0))
        bytes.append(Format.trace.rawValue)
        bytes.append(outcome.rawValue)
        bytes.append(flags.rawValue)
        bytes.appendPacked(UInt64(max(0, number)))
        bytes.appendPacked(signed: trace.startedAt.microseconds)
        let duration = trace.finishedAt.microseconds - trace.startedAt.microseconds
        bytes.appendPacked(UInt64(max(0, duration)))
        if let node {
            for word in [node.high, node.low] { bytes.appendBigEndian(word) }
        }
        if let error { bytes.appendPacked(bytes: error.json) }
        if let diagnostics {
            bytes.appendPacked(UInt64(max(0, diagnostics.curlCode)))
            bytes.appendPacked(signed: Int64(diagnostics.osError))
            bytes.appendPacked(diagnostics.curlMessage)
        }
        if trace.transactions.redirectCount > 0 {
            bytes.appendPacked(UInt64(trace.transactions.redirectCount))
        }
        partialDownload?.pack(into: &bytes)
        if !secretURLs.isEmpty { bytes.appendPacked(bytes: seal.seal(secretURLs.packed())) }
        if let own {
            bytes.appendPacked(own.method)
            bytes.appendPacked(own.url)
        }
        bytes.appendPacked(UInt64(trace.transactions.omittedCount))
        bytes.append(contentsOf: trace.transactions.bytes)
        return bytes
    }

    /// Returns the packed bytes of an attempt that was lost with its node. `now`: when that was found out.
    public static func packedLost(number: Int32, node: NodeID, at now: Timestamp) -> [UInt8] {
        var bytes = [Format.lost.rawValue]
        bytes.appendBigEndian(number)
        for word in [node.high, node.low, UInt64(bitPattern: now.microseconds)] {
            bytes.appendBigEndian(word)
        }
        return bytes
    }

    /// Reads a packed attempt; `nil` if another version wrote it or it is damaged. `node`: used if the bytes
    /// contain none.
    public init?(packed bytes: [UInt8], node: NodeID?) {
        var reader = PackedReader(bytes)
        do throws(PackedReader.Damage) {
            switch Format(rawValue: try reader.byte()) {
            case .trace: try self.init(trace: &reader, node: node)
            case .lost: try self.init(lost: &reader)
            case nil: return nil
            }
        } catch {
            return nil
        }
    }

    private init(trace reader: inout PackedReader, node: NodeID?) throws(PackedReader.Damage) {
        outcome = Outcome(rawValue: try reader.byte())
        let flags = Flags(rawValue: try reader.byte())
        number = try reader.number(Int32.self)
        let start = try reader.signed()
        let duration = try reader.number(Int64.self)
        startedAt = Timestamp(microseconds: start)
        finishedAt = Timestamp(microseconds: start &+ duration)
        self.node = flags.contains(.hasNode) ? try Self.node(&reader) : node
        if flags.contains(.hasError) { error = Stored(json: try reader.blob()) }
        if flags.contains(.hasDiagnostics) {
            let code = try reader.number(Int.self)
            guard let osError = Int32(exactly: try reader.signed()) else { throw PackedReader.Damage() }
            diagnostics = Diagnostics(curlCode: code, curlMessage: try reader.text(), osError: osError)
        }
        if flags.contains(.hasRedirects) { redirectCount = try reader.number(Int.self) }
        if flags.contains(.hasPartialDownload) { partialDownload = try PartialDownload(&reader) }
        if flags.contains(.hasSealedURLs) { sealedURLs = try reader.blob() }
        if flags.contains(.hasOwnRequest) {
            own = TransactionMetrics.Request(method: try reader.text(), url: try reader.text())
        }
        omittedTransactionCount = try reader.number(Int.self)
        transactions = try Self.transactions(&reader)
    }

    private init(lost reader: inout PackedReader) throws(PackedReader.Damage) {
        number = Int32(truncatingIfNeeded: try reader.bytes(4).reduce(0) { $0 << 8 | Int($1) })
        node = try Self.node(&reader)
        finishedAt = Timestamp(microseconds: Int64(bitPattern: try reader.bigEndian()))
        outcome = .lost
        error = .attemptLost
    }

    private static func node(_ reader: inout PackedReader) throws(PackedReader.Damage) -> NodeID {
        NodeID(high: try reader.bigEndian(), low: try reader.bigEndian())
    }

    private static func transactions(
        _ reader: inout PackedReader
    ) throws(PackedReader.Damage) -> [TransactionMetrics] {
        var all: [TransactionMetrics] = []
        while !reader.isAtEnd { all.append(try TransactionMetrics(&reader)) }
        return all
    }

    /// Returns the transactions with their requests, and the URLs that the reader may see. `current`: the
    /// job's own request now.
    func transactions(
        for disclosure: Disclosure, current: TransactionMetrics.Request?
    ) -> [TransactionMetrics] {
        var (all, own) = (transactions, own)
        for secret in openedURLs(for: disclosure) {
            if secret.place == TransactionLog.SecretURL.ownPlace {
                own?.url = secret.url
            } else if all.indices.contains(secret.place) {
                all[secret.place].request?.url = secret.url
            }
        }
        for index in all.indices where all[index].request == nil { all[index].request = own ?? current }
        return all
    }

    /// Returns the URLs with secrets that the reader may see.
    private func openedURLs(for disclosure: Disclosure) -> [TransactionLog.SecretURL] {
        guard let seal = disclosure.seal else { return [] }
        guard let sealedURLs, let plain = seal.open(sealedURLs) else { return secretURLs }
        // Sealed by this service; URLs that cannot be read stay redacted.
        return (try? [TransactionLog.SecretURL](packed: plain)) ?? []
    }

    /// Creates the record of a running attempt.
    init(_ running: AttemptSnapshot, node: NodeID?) {
        self.init(number: running.number, node: node, startedAt: running.startedAt)
        omittedTransactionCount = running.transactions.omittedCount
        redirectCount = running.transactions.redirectCount
        secretURLs = running.transactions.secretURLs
        own = running.transactions.ownRequest(unless: nil)
            .map { secretURLs.redact($0, at: TransactionLog.SecretURL.ownPlace) }
        var reader = PackedReader(running.transactions.bytes)
        // Packed by this process and not stored, so it is never damaged.
        transactions = (try? Self.transactions(&reader)) ?? []
    }
}
