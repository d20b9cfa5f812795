/// Configuration of a session: the default values of its jobs, and what they share.
package struct SessionConfiguration: Sendable, Equatable {
    /// Kind of a session.
    package enum Kind: String, Sendable, CaseIterable {
        case standard = "default"
        /// Uploads have no inline source, redirects are always followed, and jobs are retried until their
        /// resource timeout.
        case background
    }

    /// Kind of the session.
    package var kind = Kind.standard
    /// Text of the client, or `nil`.
    package var description: String?
    /// Name-value pairs of the client.
    package var metadata: [JobSpec.Pair] = []
    /// The session's share of the slots, in proportion to the weights of other sessions.
    package var weight = 1.0
    /// Connections to one host on all nodes together, or `nil` for no limit.
    package var connectionsPerHostMax: Int? = 6
    /// Seconds.
    package var timeoutForRequest = 60.0
    /// Seconds.
    package var timeoutForResource = 604_800.0
    /// From 0.0 to 1.0.
    package var priority = 0.5
    /// Default values of `schedule`.
    package var isDiscretionary = false
    package var waitsForConnectivity = true
    package var networkServiceType = JobSpec.NetworkServiceType.standard
    /// Bytes per second of all its transfers on all nodes in each direction, or `nil` for no limit.
    package var bytesPerSecondMax: Int64?
    /// Header fields. Secret values are empty here; `JobSecrets.headers` of the record has them.
    package var headers: [JobSpec.Pair] = []
    /// Origins to which `headers` are sent, or `nil` for all.
    package var headerOrigins: [OriginPattern]?
    /// Proxy, or `nil`.
    package var proxy: ConnectionRules.Proxy?
    /// TLS versions; `nil` for no maximum.
    package var tlsVersionMin = ConnectionRules.TLS.Version.v12
    package var tlsVersionMax: ConnectionRules.TLS.Version?
    /// Seconds for which finished jobs and their data are kept, or `nil` for the default of Ferry.
    package var retention: Double?
    /// Rules of acknowledgement, or `nil` if finished jobs need none.
    package var acknowledgement: AcknowledgementRules?
    /// `true` if webhook endpoints get events of its jobs.
    package var sendsLaunchEvents = true

    /// Creates the default configuration.
    package init() {}

    /// Configuration of a session that is not configured.
    package static let implicit: SessionConfiguration = {
        var configuration = SessionConfiguration()
        configuration.connectionsPerHostMax = nil
        return configuration
    }()
}

/// Names of sessions.
package enum SessionName {
    /// The session of jobs that name none; it always exists.
    package static let standard = "default"

    /// Returns `true` for 1 to 128 letters, digits and `-._~:@`, which need no escape in a path. Excludes `.`
    /// and `..`, which clients remove from paths (RFC 3986 §5.2.4).
    package static func isValid(_ name: String) -> Bool {
        (1...Limits.nameByteCountMax).contains(name.utf8.count) && name != "." && name != ".."
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "-._~:@".utf8.contains(byte)
                }
            }
    }
}

/// How a session ends.
package enum SessionInvalidation: String, Sendable, CaseIterable {
    /// Its jobs continue.
    case finish
    /// Its jobs are cancelled.
    case cancel
}

/// A configured or invalidated session as stored. Immutable.
package final class SessionRecord: Sendable {
    /// Tenant and name.
    package let key: SessionKey
    /// Revision; grows with each change.
    package let revision: Int32
    /// Epoch of the last change that concerns submissions.
    package let epoch: Int64
    /// Times of creation and of the last change.
    package let createdAt: Timestamp
    package let updatedAt: Timestamp
    /// Configuration.
    package let configuration: SessionConfiguration
    /// Secret values of header fields, and the password of the proxy.
    package let secrets: JobSecrets
    /// `false` if the row is damaged or encrypted with another key.
    package let isReadable: Bool
    /// How it was invalidated, or `nil`.
    package let invalidation: SessionInvalidation?
    /// Time of the invalidation, or `nil`.
    package let invalidatedAt: Timestamp?
    /// Time at which the last job of an invalidated session ended, or `nil`.
    package let endedAt: Timestamp?

    /// Creates a record.
    package init(
        _ key: SessionKey, revision: Int32, epoch: Int64, createdAt: Timestamp, updatedAt: Timestamp,
        configuration: SessionConfiguration, secrets: JobSecrets = JobSecrets(),
        isReadable: Bool = true, invalidation: SessionInvalidation? = nil, invalidatedAt: Timestamp? = nil,
        endedAt: Timestamp? = nil
    ) {
        self.key = key
        self.revision = revision
        self.epoch = epoch
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.configuration = configuration
        self.secrets = secrets
        self.isReadable = isReadable
        self.invalidation = invalidation
        self.invalidatedAt = invalidatedAt
        self.endedAt = endedAt
    }
}

/// A session as a client configures it.
package struct SessionDraft: Sendable {
    /// Configuration and secrets.
    package let configuration: SessionConfiguration
    package let secrets: JobSecrets
    /// `secrets`, encrypted, or `nil` if there are none.
    package let sealedSecrets: [UInt8]?

    /// Creates a draft.
    package init(configuration: SessionConfiguration, secrets: JobSecrets, sealedSecrets: [UInt8]?) {
        self.configuration = configuration
        self.secrets = secrets
        self.sealedSecrets = sealedSecrets
    }
}
