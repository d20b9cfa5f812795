/// What the jobs of a session get that say nothing else, and what they share.
package struct SessionConfiguration: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        case standard = "default"
        /// Uploads only from what lies somewhere, redirects always followed, retries until the resource
        /// timeout.
        case background
    }

    package var kind = Kind.standard
    package var description: String?
    package var metadata: [JobSpec.Pair] = []
    /// The session's share of the capacity, in proportion to other sessions' weights.
    package var weight = 1.0
    /// Of the whole service; nil: no limit.
    package var connectionsPerHostMax: Int? = 6
    /// Seconds.
    package var timeoutForRequest = 60.0
    /// Seconds.
    package var timeoutForResource = 604_800.0
    /// 0.0 to 1.0.
    package var priority = 0.5
    package var isDiscretionary = false
    package var waitsForConnectivity = true
    package var networkServiceType = JobSpec.NetworkServiceType.standard
    /// Of all its transfers on all nodes together, in either direction; nil: no limit.
    package var bytesPerSecondMax: Int64?
    /// Secret values are empty here; they live in the record's `JobSecrets.headers`.
    package var headers: [JobSpec.Pair] = []
    /// The only ones to which `headers` go; nil: all.
    package var headerOrigins: [OriginPattern]?
    package var proxy: ConnectionRules.Proxy?
    package var tlsVersionMin = ConnectionRules.TLS.Version.v12
    package var tlsVersionMax: ConnectionRules.TLS.Version?
    /// Seconds for which finished jobs and what the service keeps of them stay; nil: as the service has it.
    package var retention: Double?
    /// Whether finished jobs stay until somebody acknowledges them; nil: they do not.
    package var acknowledgement: AcknowledgementRules?
    /// Whether webhook endpoints hear of its jobs.
    package var sendsLaunchEvents = true

    package init() {}

    /// Of a session that nobody has configured.
    package static let implicit: SessionConfiguration = {
        var configuration = SessionConfiguration()
        configuration.connectionsPerHostMax = nil
        return configuration
    }()
}

/// The names of sessions.
package enum SessionName {
    /// Takes the jobs that name none; it is always there.
    package static let standard = "default"

    /// 1 to 128 letters, digits and `-._~:@`: nothing that has to be escaped in a path. Nor one of dots
    /// alone, which clients take out of paths (RFC 3986 §5.2.4).
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

/// How a session comes to its end.
package enum SessionInvalidation: String, Sendable, CaseIterable {
    /// Its jobs go on.
    case finish
    /// Its jobs are cancelled.
    case cancel
}

/// A session that somebody has configured or invalidated, as it is stored.
package final class SessionRecord: Sendable {
    package let key: SessionKey
    package let revision: Int32
    /// Of the last change that concerns those who accept jobs.
    package let epoch: Int64
    package let createdAt: Timestamp
    package let updatedAt: Timestamp
    package let configuration: SessionConfiguration
    /// Values of header fields, and what its proxy asks for.
    package let secrets: JobSecrets
    /// False: its row is damaged, or sealed with another key.
    package let isReadable: Bool
    package let invalidation: SessionInvalidation?
    package let invalidatedAt: Timestamp?
    /// When the last job of an invalidated session was over.
    package let endedAt: Timestamp?

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

/// A session as a client asks for it.
package struct SessionDraft: Sendable {
    package let configuration: SessionConfiguration
    package let secrets: JobSecrets
    /// `secrets`, sealed; nil: there are none.
    package let sealedSecrets: [UInt8]?

    package init(configuration: SessionConfiguration, secrets: JobSecrets, sealedSecrets: [UInt8]?) {
        self.configuration = configuration
        self.secrets = secrets
        self.sealedSecrets = sealedSecrets
    }
}
