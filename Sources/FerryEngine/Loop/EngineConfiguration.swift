package import FerryCore
package import Sys

/// How an engine is set up. Immutable for its life.
package struct EngineConfiguration: Sendable {
    package enum FileSync: String, Sendable, CaseIterable {
        /// Bytes and name are on stable storage before an attempt counts as succeeded.
        case full
        /// Left to the kernel.
        case none
    }

    /// Threads that drive transfers.
    package var loopCount = 2
    /// Threads that hash, sync and publish files.
    package var fileThreadCount = 4
    /// Which node this is; nil: there are no others.
    package var node: NodeID?
    /// A tenant's directory; it is made when it is missing.
    package var storageRoot: @Sendable (_ tenant: String) -> String
    /// Permissions of what is made below a tenant's directory.
    package var fileModes: @Sendable (_ tenant: String) -> FileModes = { _ in FileModes(umask: 0o022) }
    /// Where files without a destination are kept, for this process alone, in 256 subdirectories
    /// (`ManagedFiles.path`).
    package var keptDirectory: String
    package var fileSync = FileSync.full
    /// Bytes that stay free on each file system, but no more than a twentieth of it.
    package var storageReserve: Int64 = 256 << 20
    /// Seconds for which a disk may leave everything unanswered before attempts that wait for it are given
    /// up; `downloads` is closed long before.
    package var storageTimeout = 120.0
    /// While the file system of one of these has less free than its reserve, `downloads` is closed.
    package var watchedDirectories: [String] = []
    package var downloads = DownloadAdmission()
    /// Seconds for which an attempt that has reached somebody keeps its slot while no byte moves.
    package var silencePatience = 5.0
    /// Who admits connections beyond an attempt's first; nil: nothing limits them.
    package var connections: (any ConnectionLimiter)?
    package var egress: EgressPolicy
    package var userAgent: String
    /// Bytes of a body that stay in memory until a file thread writes the whole file at once.
    package var memoryByteCountMax = 16 << 10
    /// The same for bodies whose length is known and that arrive within a second or two, while all of them
    /// together are no more than so many bytes; longer ones go to their file.
    package var gatheredByteCountMax = Limits.gatheredBytesMax
    /// For jobs that name none of their own.
    package var proxy: ServiceProxy?
    /// Idle connections that all loops together keep; at least the number of transfers at once.
    package var keptConnectionCount = 512

    package init(
        storageRoot: @escaping @Sendable (_ tenant: String) -> String, keptDirectory: String,
        egress: EgressPolicy,
        userAgent: String
    ) {
        self.storageRoot = storageRoot
        self.keptDirectory = keptDirectory
        self.egress = egress
        self.userAgent = userAgent
    }
}

/// Bounds of one transfer, with unit and reason.
enum EngineLimits {
    /// The largest file that is sent; all that a form may name fit into 63 bits together.
    static let sourceByteCountMax: Int64 = 1 << 53
    /// Bytes of a body that may gather in memory; one turn of a file thread writes and hashes it.
    static let gatheredBodyByteCountMax: Int64 = 256 << 10
    /// Nanoseconds after which a body that still gathers goes to its file: it is slow, and memory is dear.
    static let gatheringMax: Int64 = 1_000_000_000
    /// Bytes of a body that are hashed where they arrive; the rest is hashed behind the writer by a file
    /// thread.
    static let inlineDigestByteCountMax: Int64 = 1 << 20
    /// Bytes from which a transfer is bulk: large buffers, spread over the loops.
    static let bulkByteCountMin: Int64 = 1 << 20
    /// Bytes that a writer may be ahead of its digest before reading stops, and below which it goes on.
    static let digestLagMax: Int64 = 64 << 20
    static let digestLagResume: Int64 = 32 << 20
    /// Bytes of a body nobody wants that are read so that the connection can be used again.
    static let discardByteCountMax = 64 << 10
    /// Bytes that a body may become in one turn of its loop by being decoded: gzip stays below, bombs of
    /// other codings do not.
    static let decodedBurstMax = 256 << 20
    /// libcurl fills its buffer up to a hundred times before it comes back (7.88), and decodes meanwhile.
    static let codedReceiveBufferSize = 2 << 10
    /// libcurl's default; larger ones cost slow transfers memory.
    static let receiveBufferSize = 16 << 10
    /// While a loop has so few transfers. Below 64 KiB: glibc consolidates its heap whenever so large a chunk
    /// is freed, and libcurl frees the buffer after each transfer.
    static let roomyReceiveBufferSize = 48 << 10
    static let roomyTransferCountMax = 64
    static let bulkReceiveBufferSize = 512 << 10
    /// Of transfers that begin while a loop has more than so many others (the default concurrency): each of
    /// them is slow, and what counts is their memory.
    static let crowdedReceiveBufferSize = 2 << 10
    static let crowdedTransferCountMin = 256
    static let bulkSendBufferSize = 512 << 10
    /// What one step of a transfer with a speed limit moves at most, and at least (libcurl's smallest
    /// buffer); in between, what the slowest of its limits lets through in so many seconds.
    static let pacedBufferSize = 16 << 10
    static let portionMin = 1 << 10
    static let portionSeconds = 0.05
    /// Hosts with a limit that are remembered, before those that nobody uses are forgotten.
    static let pacedHostCountMax = 1_000
    /// Bytes of a part that are written before their write-back is started.
    static let partWriteBehindByteCount: Int64 = 4 << 20
    /// Bytes that both halves of a part must have to be worth a request: while the part's rate is unknown,
    /// and at least. Above that, what the part gets in a second.
    static let partByteCountMin: Int64 = 1 << 20
    static let slowPartByteCountMin: Int64 = 64 << 10
    static let partReceiveBufferSizeMin = 64 << 10
    /// Failures of one part at a source after which an attempt asks it no more; useful answers count anew.
    static let partFailureCountMax = 3
    /// Nanoseconds until a connection is asked for again that was refused.
    static let refusalPause: Int64 = 1_000_000_000
    /// Seconds that an attempt has waited at least when it is given up because its disk hangs: where several
    /// disks are in use, the others answer sooner.
    static let diskSecondsMin = 10
    /// How often an attempt begins its file anew because the source has another one, besides once a mirror.
    static let restartCountMax = 2
    /// Milliseconds for name resolution, connection and TLS handshake.
    static let connectTimeout = 30_000
    /// Seconds for which an attempt keeps its slot while it reaches nobody.
    static let connectPatience = 1.0
    /// Hosts that are remembered as sources of bulk.
    static let bulkOriginCountMax = 10_000
    /// Bytes of a body from which its record is kept while it arrives, so that its bytes outlast a crash.
    static let recordedByteCountMin: Int64 = 1 << 20
    /// Bytes of a record; a file in hundreds of pieces fits.
    static let recordByteCountMax = 64 << 10
    /// Bytes that a partial file gives back on a full disk, so that its record finds room.
    static let recordRoomByteCount: Int64 = 128 << 10
    /// Bytes of a media type that a record keeps: RFC 6838 §4.2 allows 127 for each of its halves.
    static let recordedTypeByteCountMax = 255
    /// Digests that a record keeps of one file, and that later answers may add.
    static let laterDigestCountMax = 8
    /// Nanoseconds after which a file system that had no room, and that nobody wanted anything of since, is
    /// asked about no more. Who waits for room looks once a minute.
    static let shortageMax: Int64 = 300_000_000_000
    /// Nanoseconds between two records of one body, each with what has reached stable storage.
    static let recordInterval: Int64 = 10_000_000_000
    /// Jobs of this process whose partial files are remembered.
    static let leftoverCountMax = 10_000
    /// Attempts whose files are asked for by their names; for later ones the directory is read.
    static let namedAttemptCountMax: Int32 = 16
    /// Names that `if_exists: rename` tries.
    static let renameCountMax = 1_000
}

/// Where the service keeps the file of a job without destination.
package enum ManagedFiles {
    /// Relative to the directory of kept files: two hexadecimal digits, a slash, the job's identifier.
    package static func path(for job: JobID) -> String {
        let shard = String(job.low & 0xFF, radix: 16)
        return (shard.utf8.count == 1 ? "0" + shard : shard) + "/\(job)"
    }
}
