import FerryCore
import Glibc

/// An open file, and the disk space that is promised to it.
///
/// Unchecked: one thread at a time uses it.
final class ClaimedFile: @unchecked Sendable {
    let descriptor: Int32
    private let directory: StorageDirectory
    private let space: StorageSpace
    private let claim: StorageClaim

    /// Takes over the descriptor.
    init(descriptor: Int32, directory: StorageDirectory, space: StorageSpace, claim: StorageClaim) {
        self.descriptor = descriptor
        self.directory = directory
        self.space = space
        self.claim = claim
    }

    deinit { close(descriptor) }

    /// Throws `storage_full` or `storage_failed`.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
        try claim.take(bytes.count, descriptor)
        do throws(TransferError) {
            try writeAll(descriptor, bytes, at: offset)
        } catch {
            if error.code == .storageFull { space.noteFull(at: directory) }
            throw error
        }
    }

    /// Throws `storage_full` or `storage_failed`.
    func write(_ bytes: [UInt8], at offset: Int64) throws(TransferError) {
        try bytes.withUnsafeBytes { bytes in
            Result { () throws(TransferError) in try write(bytes, at: offset) }
        }.get()
    }

    func sync() throws(TransferError) {
        if fdatasync(descriptor) != 0 { throw storageError(errno) }
    }

    /// Drops the bytes from `offset` on.
    func truncate(to offset: Int64) throws(TransferError) {
        if ftruncate(descriptor, off_t(offset)) != 0 { throw storageError(errno) }
    }
}
