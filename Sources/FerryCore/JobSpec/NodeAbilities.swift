/// Abilities of the node that reads a job. By default, it can read no certificates.
package struct NodeAbilities: Sendable {
    /// Returns why a PEM text of certificates is invalid, as a sentence, or `nil` if it is valid.
    package var certificateError: @Sendable (_ pem: String) -> String?
    /// Returns why a PEM text with a private key is invalid or does not belong to the first certificate, or
    /// `nil` if it is valid.
    package var keyError: @Sendable (_ pem: String, _ certificate: String?) -> String?
    /// `true` if libcurl supports HTTP/3.
    package var hasHTTP3: Bool
    /// `true` if libcurl supports NTLM.
    package var hasNTLM = false
    /// Members of `integrity` that libcrypto cannot compute.
    package var missingDigests: Set<String> = []
    /// Seconds for which Ferry keeps finished jobs, which is the largest retention of a session.
    package var retentionSeconds = 604_800.0
    /// Connections to one host of a session that names no number, or `nil` for no limit.
    package var connectionsPerHostMax: Int? = Limits.sessionConnectionCountMax

    package init(
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
