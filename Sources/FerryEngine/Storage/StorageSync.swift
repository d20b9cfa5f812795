import CSys
import FerryCore
import Glibc

/// Brings batches of files and names to stable storage. File threads only.
enum StorageSync {
    /// Brings the bytes of all files to stable storage. Returns one entry per file, `nil` if it succeeded.
    ///
    /// The write-back of all files starts before the first is waited for, so that one commit of the file
    /// system's journal serves the others too.
    static func files(_ files: [PartialFile]) -> [TransferError?] {
        if files.count > 1 { for file in files { csys_start_writeback(file.descriptor, 0, 0) } }
        return files.map { file in
            do throws(TransferError) {
                try file.sync()
                return nil
            } catch {
                return error
            }
        }
    }

    /// Brings the names in these directories to stable storage. Returns one entry per directory, `nil` if it
    /// succeeded.
    static func directories(_ directories: [StorageDirectory]) -> [TransferError?] {
        directories.map { fsync($0.descriptor) == 0 ? nil : storageError(errno) }
    }
}
