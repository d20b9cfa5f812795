import FerryCore

/// The content that a job has left at its location, opened for reading. Any thread.
package final class OpenedContent: Sendable {
    let source: any ByteSource
    /// Number of bytes.
    package let byteCount: Int64
    /// Whether the bytes are known to be those that the job has left. If not, they must not be used before
    /// their digest was compared: then `descriptor` has them.
    package let isKnown: Bool

    /// Result of a read.
    package enum Read: Equatable {
        /// So many bytes; 0 at the end.
        case bytes(Int)
        /// None yet: `whenReadable` tells when to read again.
        case none
        /// The bytes cannot be read, or have changed.
        case failed
    }

    init(_ source: any ByteSource, byteCount: Int64, isKnown: Bool) {
        self.source = source
        self.byteCount = byteCount
        self.isKnown = isKnown
    }

    /// Descriptor of the regular file that has the bytes; `nil` if there is none on this node. Open while
    /// this object exists.
    package var descriptor: Int32? { source.hashable?.descriptor }

    /// Reads bytes from `offset` on. Does not block for long.
    package func readBytes(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Read {
        do throws(TransferError) {
            switch try source.read(into: buffer, at: offset) {
            case .bytes(let count): return .bytes(count)
            case .none: return .none
            }
        } catch {
            // The reader's connection is closed; the reason is the same as for a file that was cut off.
            return .failed
        }
    }

    /// Calls `body` once, on any thread, as soon as a read that found no bytes can be repeated.
    package func whenReadable(_ body: @escaping @Sendable () -> Void) { source.whenReadable(body) }
}
