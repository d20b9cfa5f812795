/// A request of a resumable upload.
public enum ResumableRequest: UInt8, Sendable, CaseIterable {
    /// Asks a server for what it supports (`OPTIONS`).
    case discovery
    /// The job's own request with its whole body, which the server may make resumable.
    case creation
    /// Creates the upload, without a byte of the body.
    case emptyCreation
    /// Asks for the offset (`HEAD`).
    case offset
    /// Sends bytes from the offset on (`PATCH`).
    case append
    /// Ends an upload that cannot be continued (`DELETE`).
    case termination

    /// `true` if the request goes to the address of the upload.
    public var isToResource: Bool {
        switch self {
        case .offset, .append, .termination: true
        case .discovery, .creation, .emptyCreation: false
        }
    }

    /// `true` if the request has bytes of the body.
    public var sendsBody: Bool { self == .creation || self == .append }
}

extension UploadDialect {
    /// Version of the draft that the first, third, … attempt of a job announces. Every server that is known
    /// to speak the protocol answers it: those for URLSession of iOS 18, tusd, SwiftNIO.
    public static let versionOfOddAttempts = 6
    /// Version that the other attempts announce: that of the newest drafts, and of URLSession of iOS 26.
    public static let versionOfEvenAttempts = 8
    /// Versions in which the fields that are sent and read mean the same.
    public static let versions: ClosedRange<Int64> = 6...8

    /// Returns the method of a request. `own`: that of the job's request.
    public func method(of request: ResumableRequest, own: String) -> String {
        switch request {
        case .discovery: "OPTIONS"
        case .creation: own
        case .emptyCreation: self == .tus ? "POST" : own
        case .offset: "HEAD"
        case .append: "PATCH"
        case .termination: "DELETE"
        }
    }

    /// Returns `true` if the job's own fields that describe its body, or are conditions about the target, are
    /// left out of a request.
    public func leavesOutContentFields(of request: ResumableRequest) -> Bool {
        switch request {
        case .creation: false
        case .emptyCreation: self == .tus
        case .discovery, .offset, .append, .termination: true
        }
    }
}
