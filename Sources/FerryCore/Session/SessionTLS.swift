/// TLS settings of a session besides the versions, which are fields of the session: `ca`, client certificate
/// with its key, and `pins`. The same rules as those of a job's `request.tls`.
public struct SessionTLS: FieldObject {
    public static let summary =
        "Defaults of request.tls, for https URLs. client_certificate and client_key are one choice; a job "
        + "that names another member keeps these."
    public static let schemaName = "SessionTLS"

    /// The settings, with default versions. A stored session has the texts of secrets in
    /// `JobSecrets.connection`.
    var rules = ConnectionRules.TLS()

    public init() {}

    /// Creates settings. The versions of `rules` have their default values.
    init(_ rules: ConnectionRules.TLS) { self.rules = rules }

    public mutating func fields(_ visitor: inout some FieldVisitor) { rules.certificateFields(&visitor) }

    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        ConnectionRules.TLS.certificateRules
    }

    public mutating func check(_ body: FieldDecoder) { rules.checkCertificates(body) }
}
