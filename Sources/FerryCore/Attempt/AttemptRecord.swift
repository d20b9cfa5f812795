/// An attempt as `/attempts` shows it. A row keeps each ended one as packed bytes.
package struct AttemptRecord: Sendable, Equatable {
    package enum Outcome: UInt8, Sendable, CaseIterable {
        case succeeded = 1
        case failed, cancelled
        /// The node gave the lease back; no attempt was used up.
        case released
        /// The node died or lost touch with the database; what the attempt did is not known.
        case lost
        /// Somebody suspended the job.
        case suspended
        /// Somebody has to say how it goes on.
        case asked
        package var name: String { "\(self)" }
    }

    /// What operators are told beyond the error: libcurl's words and the operating system's error. May name
    /// addresses.
    package struct Diagnostics: Sendable, Equatable {
        /// libcurl-errors(3); 0: libcurl did not give up, the operating system refused something.
        package var curlCode: Int
        package var curlMessage: String
        /// errno(3), or 0.
        package var osError: Int32
        package init(curlCode: Int, curlMessage: String, osError: Int32) {
            self.curlCode = curlCode
            self.curlMessage = String(decoding: curlMessage.utf8.prefix(256), as: UTF8.self)
            self.osError = osError
        }
    }

    package var number: Int32
    package var node: NodeID?
    /// Nil: not known any more.
    package var startedAt: Timestamp?
    package var finishedAt: Timestamp?
    /// Nil: it runs.
    package var outcome: Outcome?
    package var errorJSON: [UInt8]?
    package var diagnostics: Diagnostics?
    /// Bytes that it has left to a later one, or to another job.
    package var kept: PartialDownload?
    package var transactions: [TransactionMetrics] = []
    package var omittedTransactionCount = 0
    package var redirectCount = 0
    /// The URLs of `transactions` that are not harmless, encrypted; nil: there are none.
    private var sealedURLs: [UInt8]?
    /// The same of an attempt that runs, in memory.
    private var secretURLs: [TransactionLog.SecretURL] = []

    package init(number: Int32, node: NodeID?, startedAt: Timestamp?) {
        self.number = number
        self.node = node
        self.startedAt = startedAt
    }
}

/// What the engine knows of an attempt that has begun, besides its outcome.
package struct AttemptTrace: Sendable, Equatable {
    package var startedAt: Timestamp
    package var finishedAt: Timestamp
    package var transactions: TransactionLog
    /// Of the last request that libcurl gave up.
    package var diagnostics: AttemptRecord.Diagnostics?
    package init(
        startedAt: Timestamp, finishedAt: Timestamp, transactions: TransactionLog = TransactionLog(),
        diagnostics: AttemptRecord.Diagnostics? = nil
    ) {
        self.startedAt = startedAt
        self.finishedAt = finishedAt
        self.transactions = transactions
        self.diagnostics = diagnostics
    }
}

/// An attempt that runs on this node, as far as it is.
package struct AttemptSnapshot: Sendable {
    package let number: Int32
    package let startedAt: Timestamp
    package let transactions: TransactionLog
    package init(number: Int32, startedAt: Timestamp, transactions: TransactionLog) {
        self.number = number
        self.startedAt = startedAt
        self.transactions = transactions
    }
}

// MARK: Packing

extension AttemptRecord {
    /// The first byte: how the rest is to be read.
    private enum Format: UInt8 {
        case trace = 1
        /// Written by reclaim_jobs.sql and rescue_jobs.sql: number (4 bytes), node (16) and the time in
        /// microseconds at which it was found (8), the highest byte first.
        case lost = 2
    }

    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let hasNode = Flags(rawValue: 1)
        static let hasError = Flags(rawValue: 2)
        static let hasDiagnostics = Flags(rawValue: 4)
        static let hasRedirects = Flags(rawValue: 8)
        /// kept_attempt (0023_kept_bytes.sql) looks for it.
        static let hasKeptBytes = Flags(rawValue: 16)
        static let hasSealedURLs = Flags(rawValue: 32)
    }

    /// The bytes of one ended attempt. `node` nil: whoever reads them knows it.
    package static func packed(
        number: Int32, node: NodeID?, _ trace: AttemptTrace, _ outcome: Outcome, errorJSON: [UInt8]?,
        kept: PartialDownload? = nil, _ seal: SecretSeal
    ) -> [UInt8] {
        let diagnostics = outcome == .failed ? trace.diagnostics : nil
        var flags: Flags = []
        if node != nil { flags.insert(.hasNode) }
        if errorJSON != nil { flags.insert(.hasError) }
        if diagnostics != nil { flags.insert(.hasDiagnostics) }
        if trace.transactions.redirectCount > 0 { flags.insert(.hasRedirects) }
        if kept != nil { flags.insert(.hasKeptBytes) }
        let secretURLs = trace.transactions.secretURLs
        if !secretURLs.isEmpty { flags.insert(.hasSealedURLs) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(64 + trace.transactions.bytes.count + (errorJSON?.count ?? 0))
        bytes.append(Format.trace.rawValue)
        bytes.append(outcome.rawValue)
        bytes.append(flags.rawValue)
        bytes.appendPacked(UInt64(max(0, number)))
        bytes.appendPacked(signed: trace.startedAt.microseconds)
        let duration = trace.finishedAt.microseconds - trace.startedAt.microseconds
        bytes.appendPacked(UInt64(max(0, duration)))
        if let node {
            for word in [node.high, node.low] {
                for shift in stride(from: UInt64(56), through: 0, by: -8) {
                    bytes.append(UInt8(truncatingIfNeeded: word >> shift))
                }
            }
        }
        if let errorJSON { bytes.appendPacked(bytes: errorJSON) }
        if let diagnostics {
            bytes.appendPacked(UInt64(max(0, diagnostics.curlCode)))
            bytes.appendPacked(signed: Int64(diagnostics.osError))
            bytes.appendPacked(diagnostics.curlMessage)
        }
        if trace.transactions.redirectCount > 0 {
            bytes.appendPacked(UInt64(trace.transactions.redirectCount))
        }
        kept?.pack(into: &bytes)
        if !secretURLs.isEmpty { bytes.appendPacked(bytes: seal.seal(secretURLs.packed())) }
        bytes.appendPacked(UInt64(trace.transactions.omittedCount))
        bytes.append(contentsOf: trace.transactions.bytes)
        return bytes
    }

    /// Reads a packed attempt; nil for what another version wrote or the disk has damaged. `node`: the one
    /// that is not among the bytes.
    package init?(packed bytes: [UInt8], node: NodeID?) {
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
        if flags.contains(.hasError) { errorJSON = try reader.blob() }
        if flags.contains(.hasDiagnostics) {
            let code = try reader.number(Int.self)
            guard let osError = Int32(exactly: try reader.signed()) else { throw PackedReader.Damage() }
            diagnostics = Diagnostics(curlCode: code, curlMessage: try reader.text(), osError: osError)
        }
        if flags.contains(.hasRedirects) { redirectCount = try reader.number(Int.self) }
        if flags.contains(.hasKeptBytes) { kept = try PartialDownload(&reader) }
        if flags.contains(.hasSealedURLs) { sealedURLs = try reader.blob() }
        omittedTransactionCount = try reader.number(Int.self)
        transactions = try Self.transactions(&reader)
    }

    private init(lost reader: inout PackedReader) throws(PackedReader.Damage) {
        number = Int32(truncatingIfNeeded: try reader.bytes(4).reduce(0) { $0 << 8 | Int($1) })
        node = try Self.node(&reader)
        finishedAt = Timestamp(microseconds: Int64(bitPattern: try reader.bigEndian()))
        outcome = .lost
        errorJSON = TransferError.attemptLost.json
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

    /// The transactions as a reader sees them.
    func transactions(for disclosure: Disclosure) -> [TransactionMetrics] {
        guard let seal = disclosure.seal else { return transactions }
        var secrets = secretURLs
        if let sealedURLs, let plain = seal.open(sealedURLs) {
            secrets = (try? [TransactionLog.SecretURL](packed: plain)) ?? []
        }
        var all = transactions
        for secret in secrets where all.indices.contains(secret.place) {
            all[secret.place].request?.url = secret.url
        }
        return all
    }

    /// One that still runs.
    init(_ running: AttemptSnapshot, node: NodeID?) {
        self.init(number: running.number, node: node, startedAt: running.startedAt)
        omittedTransactionCount = running.transactions.omittedCount
        redirectCount = running.transactions.redirectCount
        secretURLs = running.transactions.secretURLs
        var reader = PackedReader(running.transactions.bytes)
        transactions = (try? Self.transactions(&reader)) ?? []
    }
}
