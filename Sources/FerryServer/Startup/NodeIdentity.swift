package import FerryCore
import Glibc
import OpenSSL
import Sys

/// Identity of this node, stored in the data directory, which one process uses at a time.
///
/// It stays the same after a restart, so the node reclaims its own jobs at once.
package final class NodeIdentity: Sendable {
    /// Identifier of the node.
    package let id: NodeID
    /// Name of the host, for people.
    package let name: String
    private let lock: Int32

    /// Locks the data directory for this process (flock(2); the kernel releases the lock when the process
    /// ends).
    package init(dataDirectory: String) throws(Configuration.Failure) {
        lock = open(dataDirectory + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else {
            throw Configuration.Failure(
                description:
                    "\(SystemError("The data directory is not writable: open \(dataDirectory)/lock")).")
        }
        guard lockFile(lock) else {
            throw Configuration.Failure(
                description:
                    "Another Ferry uses \(dataDirectory). Set another FERRY_DATA_DIR for each node."
            )
        }
        do {
            let fresh = IdentifierGenerator { Timestamp(microseconds: wallMicroseconds()) }.make(
                NodeKindTag.self)
            _ = try createPrivateFile(dataDirectory + "/node", fresh.utf8)
            let text = String(
                decoding: try readFile(dataDirectory + "/node", byteCountMax: 100), as: UTF8.self
            ).trimmed
            guard let id = NodeID(text) else {
                throw Configuration.Failure(
                    description:
                        "\(dataDirectory)/node contains no node identifier. Remove the file to get a new one."
                )
            }
            self.id = id
        } catch let failure as Configuration.Failure {
            throw failure
        } catch {
            throw Configuration.Failure(description: "The data directory cannot be used: \(error).")
        }
        var buffer = [CChar](repeating: 0, count: 256)
        name =
            gethostname(&buffer, 255) == 0
            ? String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            : "unknown"
    }

    deinit { close(lock) }
}

/// Returns the key that seals secrets: the configured one, or one that the first start creates in the data
/// directory.
func secretKey(_ configuration: Configuration) throws(Configuration.Failure) -> [UInt8] {
    if let key = configuration.secretKey { return Array(key.utf8) }
    let path = configuration.dataDirectory + "/secret.key"
    do {
        _ = try createPrivateFile(path, Array(hexEncoded(randomBytes(32)).utf8))
        return Array(String(decoding: try readFile(path, byteCountMax: 4096), as: UTF8.self).trimmed.utf8)
    } catch {
        throw Configuration.Failure(
            description: "The key for stored secrets cannot be saved in the data directory: \(error).")
    }
}
