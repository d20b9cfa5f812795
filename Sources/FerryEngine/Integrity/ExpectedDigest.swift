import CSys
import FerryCore
import OpenSSL

/// Digests and checksums that a job may name in `integrity`, or a server in its head. Best first: SHA-256 is
/// computed in any case, and the last ones find only accidental changes.
enum DigestAlgorithm: String, Sendable, CaseIterable {
    case sha256, sha512, crc64nvme, crc32c, sha1, md5, crc32, adler32

    var byteCount: Int {
        switch self {
        case .sha256: 32
        case .sha512: 64
        case .sha1: 20
        case .md5: 16
        case .crc64nvme: 8
        case .crc32c, .crc32, .adler32: 4
        }
    }

    /// Whether this node can compute it; libcrypto may lack some.
    var isAvailable: Bool { message?.isAvailable ?? true }

    fileprivate var message: Digest.Algorithm? {
        switch self {
        case .sha256: .sha256
        case .sha512: .sha512
        case .sha1: .sha1
        case .md5: .md5
        case .crc64nvme, .crc32c, .crc32, .adler32: nil
        }
    }
}

/// A digest that the body must have.
struct ExpectedDigest: Sendable, Equatable {
    enum Source: Sendable {
        case job, server
        /// The client that sends a staged upload.
        case client
    }

    let algorithm: DigestAlgorithm
    /// Checksums in network byte order.
    let value: [UInt8]
    let source: Source

    /// `nil` if the value does not have the algorithm's length, or if a server or client announced it and
    /// this node cannot compute it.
    init?(_ algorithm: DigestAlgorithm, _ value: [UInt8]?, _ source: Source) {
        guard let value, value.count == algorithm.byteCount, source == .job || algorithm.isAvailable
        else { return nil }
        self.algorithm = algorithm
        self.value = value
        self.source = source
    }

    func isOf(_ running: RunningDigest) -> Bool { algorithm == running.algorithm }
}

extension JobSpec.Integrity {
    /// The digests that the job demands. Allocates nothing if there are none.
    var expected: [ExpectedDigest] {
        var found: [ExpectedDigest] = []
        func add(_ algorithm: DigestAlgorithm, _ text: String?) {
            guard let text, let one = ExpectedDigest(algorithm, hexDecoded(text), .job) else { return }
            found.append(one)
        }
        add(.sha256, sha256)
        add(.sha512, sha512)
        add(.crc32c, crc32c)
        add(.sha1, sha1)
        add(.md5, md5)
        add(.adler32, adler32)
        return found
    }
}

/// A digest that is computed in addition to SHA-256. One thread at a time.
final class RunningDigest {
    let algorithm: DigestAlgorithm
    private var message: Digest?
    private var checksum: UInt64

    /// `nil` if this node cannot compute it.
    init?(_ algorithm: DigestAlgorithm) {
        guard algorithm.isAvailable else { return nil }
        self.algorithm = algorithm
        message = if let message = algorithm.message { Digest(message) } else { nil }
        checksum = Self.nothing(algorithm)
    }

    private static func nothing(_ algorithm: DigestAlgorithm) -> UInt64 { algorithm == .adler32 ? 1 : 0 }

    func update(_ bytes: UnsafeRawBufferPointer) {
        switch algorithm {
        case .crc64nvme: checksum = csys_crc64nvme(checksum, bytes.baseAddress, bytes.count)
        case .crc32c: update(bytes, with: csys_crc32c)
        case .crc32: update(bytes, with: csys_crc32)
        case .adler32: update(bytes, with: csys_adler32)
        case .sha256, .sha512, .sha1, .md5: message?.update(bytes)
        }
    }

    private func update(
        _ bytes: UnsafeRawBufferPointer, with sum: (UInt32, UnsafeRawPointer?, Int) -> UInt32
    ) {
        checksum = UInt64(sum(UInt32(truncatingIfNeeded: checksum), bytes.baseAddress, bytes.count))
    }

    /// Returns the digest of all bytes so far and starts over.
    func finish() -> [UInt8] {
        if let digest = message?.finish() { return digest }
        defer { checksum = Self.nothing(algorithm) }
        return withUnsafeBytes(of: checksum.bigEndian) { Array($0.suffix(algorithm.byteCount)) }
    }
}
