import FerryCore

/// The content that a response begins or continues, as a sink has to know it.
struct ContentPlan {
    /// Bytes that may stay in memory.
    let memoryLimit: Int
    /// Memory for a body that gathers only for a while; `nil` if the body is small enough to stay in memory.
    var gathering: Gathering?
    let byteCountMax: Int64?
    /// Bytes of the body as its head announces them; `nil` if only its end tells.
    let length: Int64?
    /// Expected length of the whole content; `nil` if it is unknown.
    let expectedByteCount: Int64?
    /// The tenant whose estimate that is; `nil` if the length is known.
    var estimatedBy: String?
    let digests: Digests
    /// Record with which a later attempt continues the content; `nil` if none can.
    let record: PartialRecord?
    /// Shows the bytes to readers that follow the job; `nil` if they are not the job's content.
    let content: FollowableContent?
    /// Storage that the tenant has left; `nil` for no limit.
    var allowance: StorageAllowance?
}

/// A body that is in memory for a while.
struct Gathering {
    let claim: BufferReservation
    /// When it began, in nanoseconds of the loop's clock.
    let since: Int64
    /// Bytes that may stay in memory for any time, and are not reserved.
    var stayingByteCount = 0
    /// Whether the body stays in memory if it cannot go to its place: its job needs no file.
    var needsNoFile = false
}

/// The content that comes in parts, as a sink has to know it.
struct PartsPlan {
    /// Bytes of the whole content; `nil` if it is one body of unknown length.
    let total: Int64?
    /// Expected length if it is not known; `nil` if the job does not tell.
    let expectedByteCount: Int64?
    let digests: Digests
    /// Shows the bytes to readers that follow the job.
    let content: FollowableContent
    /// Storage that the tenant has left; `nil` for no limit.
    var allowance: StorageAllowance?
}
