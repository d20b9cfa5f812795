package import FerryCore
package import Sys

/// Configuration of an engine. Does not change while the engine runs.
package struct EngineConfiguration: Sendable {
    /// When bytes reach stable storage.
    package enum FileSync: String, Sendable, CaseIterable {
        /// Bytes and name are on stable storage before an attempt has succeeded.
        case full
        /// The kernel decides when bytes reach stable storage.
        case none
    }

    /// Threads that drive transfers.
    package var loopCount = 2
    /// Threads that hash, sync and publish files.
    package var fileThreadCount = 4
    /// Identifier of this node; `nil` if there are no others.
    package var node: NodeID?
    /// Returns a tenant's directory, which is made if it is missing.
    package var storageRoot: @Sendable (_ tenant: String) -> String
    /// Returns the permissions of files and directories that are made below a tenant's directory.
    package var fileModes: @Sendable (_ tenant: String) -> FileModes = { _ in FileModes(umask: 0o022) }
    /// Directory of managed files, for this process alone, in 256 subdirectories (`ManagedFiles.path`).
    package var managedFilesDirectory: String
    /// When bytes of files reach stable storage.
    package var fileSync = FileSync.full
    /// Bytes that stay free on each file system, at most a twentieth of it.
    package var storageReserve: Int64 = 256 << 20
    /// Seconds that a disk may hang before attempts that wait for it are given up; `downloads` admits no
    /// downloads long before.
    package var storageTimeout = 120.0
    /// While the file system of one of these has less free space than its reserve, `downloads` admits no
    /// downloads.
    package var watchedDirectories: [String] = []
    /// Says whether downloads may begin; the engine stops them while a disk is full or fails.
    package var downloads = DownloadAdmission()
    /// The limits of tenants, as the store knows them.
    package var quotas = TenantQuotas()
    /// Seconds for which an attempt that has reached its server keeps its slot while no byte moves.
    package var stallSeconds = 5.0
    /// When a connection counts as too slow, for jobs that do not say.
    package var lowSpeed = LowSpeed()
    /// Admits connections beyond an attempt's first; `nil` if they are not limited.
    package var connections: (any ConnectionLimiter)?
    /// Notes requests that must not be sent twice before they are sent; `nil` if there is no store.
    package var marker: (any RequestMarker)?
    /// Returns `true` if this node reaches no origin while other nodes do.
    package var isCutOff: @Sendable () -> Bool = { false }
    /// Resolves a name that libcurl could not resolve; blocks.
    package var resolve: @Sendable (_ name: String) -> NameAnswer = NameAnswer.ofSystem
    /// Decides which addresses and URLs may be connected.
    package var egress: EgressPolicy
    /// Value of `User-Agent`, unless the job names one.
    package var userAgent: String
    /// Bytes of a body that stay in memory until a file thread writes the whole file at once.
    package var memoryByteCountMax = 16 << 10
    /// Bytes of all bodies together that gather in memory although they are larger: those of known length
    /// that arrive within a second or two. Others go to their files.
    package var gatheredByteCountMax = Limits.gatheredBytesMax
    /// The node's own key for object stores; `nil` if it has none for any job.
    package var nodeCredentials: NodeCredentials?
    /// The sessions as this node knows them, with their credentials.
    package var sessions = SessionCache()
    /// Proxy of jobs that name none.
    package var proxy: ServiceProxy?
    /// Idle connections that all loops together keep. At least the number of transfers at once.
    package var keptConnectionCount = 512

    /// Finds staged uploads that jobs send; `nil` if there are none.
    package var uploads: (any UploadLookup)?
    /// Directory of staged uploads.
    package var uploadsDirectory: String

    /// Sets the required values; all others have their defaults.
    package init(
        storageRoot: @escaping @Sendable (_ tenant: String) -> String, managedFilesDirectory: String,
        egress: EgressPolicy, userAgent: String
    ) {
        self.storageRoot = storageRoot
        self.managedFilesDirectory = managedFilesDirectory
        uploadsDirectory = managedFilesDirectory + ".uploads"
        self.egress = egress
        self.userAgent = userAgent
    }
}

/// Bounds of one transfer, with unit and reason.
enum EngineLimits {
    /// Bytes of the largest file that is sent; all files of a form together fit into 63 bits.
    static let sourceByteCountMax: Int64 = 1 << 53
    /// Bytes of a body that may gather in memory: a file thread writes and hashes it in one turn.
    static let gatheredBodyByteCountMax: Int64 = 256 << 10
    /// Nanoseconds after which a body that still gathers goes to its file: it is slow, and memory is scarce.
    static let gatheringMax: Int64 = 1_000_000_000
    /// Bytes of a body that are hashed where they arrive; the rest is hashed behind the writer by a file
    /// thread.
    static let inlineDigestByteCountMax: Int64 = 1 << 20
    /// Bytes from which a transfer is bulk: large buffers, spread over the loops.
    static let bulkByteCountMin: Int64 = 1 << 20
    /// Bytes that a writer may be ahead of its digest before reading pauses, and below which it resumes.
    static let digestLagMax: Int64 = 64 << 20
    static let digestLagResume: Int64 = 32 << 20
    /// Bytes of an unwanted body that are read so that the connection can be used again.
    static let discardByteCountMax = 64 << 10
    /// Seconds for which an unwanted body is read.
    static let discardSecondsMax = 5
    /// Bytes that may be decoded in one turn of a loop: gzip stays below, decompression bombs of other
    /// codings do not.
    static let decodedBurstMax = 256 << 20
    /// Bytes of libcurl's buffer for a coded body: it fills the buffer up to a hundred times before it
    /// returns (7.88), and the bytes are decoded meanwhile.
    static let codedReceiveBufferSize = 2 << 10
    /// Cookies of one chain of redirects. As many as a client should keep of one domain (RFC 6265bis §6.1).
    static let cookies = CookieLimits(domainCountMax: 50, countMax: 50, byteCountMax: 24 << 10)
    /// libcurl's default, in bytes; a larger buffer would cost slow transfers memory.
    static let receiveBufferSize = 16 << 10
    /// Bytes of the buffer while a loop has at most `largeBufferTransferCountMax` transfers. Below 64 KiB:
    /// glibc consolidates its heap whenever so large a chunk is freed, and libcurl frees the buffer after
    /// each transfer.
    static let largeReceiveBufferSize = 48 << 10
    static let largeBufferTransferCountMax = 64
    static let bulkReceiveBufferSize = 512 << 10
    /// Bytes of memory of all copies to stores, in addition to one part of each.
    static let copiedByteCountMax = 256 << 20
    /// Bytes of the buffer of a copy's source: a part of the pipe behind it.
    static let pipedReceiveBufferSize = 256 << 10
    /// Bytes of the buffer of transfers that begin while a loop has more than `crowdedTransferCountMin`
    /// others (the default concurrency): each is slow, and their memory counts.
    static let crowdedReceiveBufferSize = 2 << 10
    static let crowdedTransferCountMin = 256
    static let bulkSendBufferSize = 512 << 10
    /// Bytes that one step of a transfer with a speed limit moves, at most and at least (libcurl's smallest
    /// buffer); in between, what its slowest limit lets through in `portionSeconds`.
    static let pacedBufferSize = 16 << 10
    static let portionMin = 1 << 10
    static let portionSeconds = 0.05
    /// Hosts with a limit that are remembered before unused ones are forgotten.
    static let pacedHostCountMax = 1_000
    /// Bytes of a part that are written before their write-back is started.
    static let partWriteBehindByteCount: Int64 = 4 << 20
    /// Bytes that both halves of a part must have to be worth a request: while the part's rate is unknown,
    /// and at least. Above that, what the part gets in a second.
    static let partByteCountMin: Int64 = 1 << 20
    static let slowPartByteCountMin: Int64 = 64 << 10
    static let partReceiveBufferSizeMin = 64 << 10
    /// Failures at one source, without a useful response between them, after which an attempt does not ask it
    /// any more.
    static let partFailureCountMax = 3
    /// New bytes of a body after which the next request follows at once, without a delay.
    static let progressByteCountMin: Int64 = 64 << 10
    /// Longest delay between two requests of an attempt, in seconds. With a longer one the attempt ends, and
    /// its job waits without a slot.
    static let slotPauseMax = 5.0
    /// Nanoseconds until a refused connection is asked for again.
    static let refusalPause: Int64 = 1_000_000_000
    /// Nanoseconds for which an end of a copy waits for its connection.
    static let connectionWaitMax: Int64 = 10_000_000_000
    /// Seconds that an attempt waits at least before it is given up because its disk hangs: if several disks
    /// are in use, the others answer sooner.
    static let diskSecondsMin = 10
    /// Number of times that an attempt restarts its file because the source has another one, in addition to
    /// once per mirror.
    static let restartCountMax = 2
    /// Directories of destinations that are kept open after their check, and the nanoseconds for which a
    /// check holds.
    static let checkedDirectoryCountMax = 64
    static let checkedDirectoryTime: Int64 = 1_000_000_000
    /// Milliseconds for name resolution, connection and TLS handshake.
    static let connectTimeout = 30_000
    /// Seconds for which an attempt keeps its slot while it has not connected.
    static let connectStallSeconds = 1.0
    /// Bytes per second below which an attempt lends its slot while other tenants wait for slots, and the
    /// shortest time over which they are measured.
    static let slotBytesPerSecondMin = 4_096.0
    static let slotMeasurementSeconds = 0.5
    /// Nanoseconds between two looks for slow attempts while tenants wait for slots.
    static let earlyLoanInterval: Int64 = 250_000_000
    /// Nanoseconds by which a loop is late whose measurements do not count.
    static let lateNanoseconds: Int64 = 500_000_000
    /// Attempts of an origin that begin on each loop before all go to one: enough that the first large files
    /// use all processors, and few connections for an origin with small ones.
    static let firstAttemptCountPerLoop = 4
    /// Hosts that are remembered as sources of bulk, and those of which the first attempts are counted.
    static let bulkOriginCountMax = 10_000
    /// Bytes from which a body's record is written while it arrives, so that its bytes outlast a crash.
    static let recordedByteCountMin: Int64 = 1 << 20
    /// Bytes of a record; a file in hundreds of pieces fits.
    static let recordByteCountMax = 64 << 10
    /// Bytes that a partial file gives back on a full disk, so that its record finds room.
    static let recordReserveByteCount: Int64 = 128 << 10
    /// Bytes of a media type that a record keeps: RFC 6838 §4.2 allows 127 for each of its halves.
    static let recordedTypeByteCountMax = 255
    /// Digests that a record keeps of one file, and that later responses may add.
    static let laterDigestCountMax = 8
    /// Nanoseconds after which a shortage is forgotten if no transfer has asked about it since. A job that
    /// waits for space asks once a minute.
    static let shortageMax: Int64 = 300_000_000_000
    /// Nanoseconds between two records of one body, each with what has reached stable storage.
    static let recordInterval: Int64 = 10_000_000_000
    /// Jobs of this process whose partial files are remembered.
    static let keptPartialFileCountMax = 10_000
    /// Number of an attempt up to which files of earlier attempts are looked for by name; for later ones the
    /// directory is read.
    static let namedAttemptCountMax: Int32 = 16
    /// Names that `if_exists: rename` tries.
    static let renameCountMax = 1_000
}

/// Paths of managed files: those of jobs without a destination.
package enum ManagedFiles {
    /// Returns the path relative to the directory of managed files: two hexadecimal digits, a slash, the
    /// job's identifier.
    package static func path(for job: JobID) -> String {
        let shard = String(job.low & 0xFF, radix: 16)
        return (shard.utf8.count == 1 ? "0" + shard : shard) + "/\(job)"
    }
}
