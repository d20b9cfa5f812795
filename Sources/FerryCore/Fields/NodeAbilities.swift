/// Abilities of the node that reads a job. By default, it can read no certificates.
public struct NodeAbilities: Sendable {
    /// Returns why a PEM text of certificates is invalid, as a sentence, or `nil` if it is valid.
    public var certificateError: @Sendable (_ pem: String) -> String?
    /// Returns why a PEM text with a private key is invalid or does not belong to the first certificate, or
    /// `nil` if it is valid.
    public var keyError: @Sendable (_ pem: String, _ certificate: String?) -> String?
    /// `true` if libcurl supports HTTP/3.
    public var hasHTTP3: Bool
    /// `true` if libcurl supports NTLM.
    public var hasNTLM = false
    /// Members of `integrity` that libcrypto cannot compute.
    public var missingDigests: Set<String> = []
    /// Seconds for which Ferry keeps finished jobs, which is the largest retention of a session.
    public var retentionSeconds = 604_800.0
    /// Connections to one host of a session that names no number, or `nil` for no limit.
    public var connectionsPerHostMax: Int? = Limits.sessionConnectionCountMax

    public init(
        hasHTTP3: Bool = false,
        certificateError: @escaping @Sendable (String) -> String? = { _ in
            "This node cannot read certificates."
        },
        keyError: @escaping @Sendable (String, String?) -> String? = { _, _ in
            "This node cannot read keys."
        }
    ) {
        self.hasHTTP3 = hasHTTP3
        self.certificateError = certificateError
        self.keyError = keyError
    }
}
