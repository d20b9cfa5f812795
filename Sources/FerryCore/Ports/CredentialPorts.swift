/// Result of `PUT` of a credential.
public enum CredentialPut: Sendable {
    case created(CredentialRecord)
    /// The credential was replaced, or had these values already.
    case stored(CredentialRecord)
}

/// Stores credentials of sessions. Those of another tenant's session are `notFound`. After the reply to a
/// change, every job that is submitted on any node uses the new credentials.
public protocol CredentialStore: Sendable {
    /// Reads credentials of a session by name, after `name`.
    func credentials(
        of session: SessionKey, after name: String?, limit: Int, reply: @escaping Reply<[CredentialRecord]>)
    /// Reads a credential.
    func credential(_ name: String, of session: SessionKey, reply: @escaping Reply<CredentialRecord>)
    /// Creates or replaces a credential. Errors: `stale` if the condition is not met, `sessionNotConfigured`,
    /// `sessionInvalidated`, `tooManyCredentials`.
    func putCredential(
        _ name: String, of session: SessionKey, _ draft: CredentialDraft, if condition: SessionCondition,
        reply: @escaping Reply<CredentialPut>)
    /// Removes a credential. Error: `stale`.
    func deleteCredential(
        _ name: String, of session: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>)
}
