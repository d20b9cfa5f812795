import FerryAPI
import FerryCore
import FerryStore
import Glibc
import Logging
import OpenSSL
import Sys

/// Values that the first start of a cluster stores in the database, and secrets that are shown once.
struct Bootstrap: Sendable {
    let webhookSecret: WebhookSecret
    /// Identifier of the cluster, which is part of the keys of the content store.
    let cluster: String

    /// Checks that this node's key opens the database's secrets, and creates the webhook secret if there is
    /// none. Must be the first access to the database: a node with another key must not change anything.
    /// Blocks for a few round trips.
    static func prepare(_ configuration: Configuration, url: String, box: SecretBox) throws -> Bootstrap {
        var settings = try FirstSettings(url: url)
        let sealed = try settings.keep("secret_key_proof", box.seal(Array("ferry".utf8)))
        // The only error: sealed with another key.
        guard (try? box.open(sealed)) != nil else {
            throw Configuration.Failure(
                description:
                    "This database was set up with another FERRY_SECRET_KEY. Use the key of its first node "
                    + "(its FERRY_SECRET_KEY, or the file secret.key in its data directory).")
        }
        let cluster = try settings.keep("cluster", Array(hexEncoded(randomBytes(8)).utf8))
        return Bootstrap(
            webhookSecret: try prepareWebhookSecret(configuration, &settings, box: box),
            cluster: String(decoding: cluster, as: UTF8.self))
    }

    private static func prepareWebhookSecret(
        _ configuration: Configuration, _ settings: inout FirstSettings, box: SecretBox
    ) throws -> WebhookSecret {
        if let secret = configuration.webhookSecret { return secret }
        // No input reaches this: the length is a constant.
        guard let fresh = WebhookSecret(key: randomBytes(32)) else {
            preconditionFailure("32 bytes are a webhook secret")
        }
        let sealed = try settings.keep("webhook_secret", box.seal(Array(fresh.text.utf8)))
        // An unreadable secret is an error below, whatever the reason.
        guard let plain = try? box.open(sealed),
            let kept = WebhookSecret(String(decoding: plain, as: UTF8.self))
        else {
            throw Configuration.Failure(description: "The webhook secret in the database cannot be read.")
        }
        // Otherwise it is shown with the first admin key.
        if configuration.adminKey != nil, kept == fresh {
            show("\nWebhooks are signed with, shown this once:  \(kept.text)\n\n")
        }
        return kept
    }

    private static func show(_ text: String) {
        let bytes = Array(text.utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }

    /// Stores the configured admin key, or creates the first one and shows it. Call when nothing else can
    /// make this start fail. `address`: URL of this node.
    func prepareAdminKey(
        _ configuration: Configuration, store: Store, address: String, now: Timestamp, logger: Logger
    ) throws {
        let keys = store.keys
        let generator = IdentifierGenerator { now }
        func record(_ key: String, name: String) -> APIKey {
            APIKey(id: generator.make(), role: .admin, name: name, hash: digest(ofKey: key), createdAt: now)
        }
        if let key = configuration.adminKey {
            let configured = record(key, name: "FERRY_ADMIN_KEY")
            _ = try Self.wait { keys.createKey(configured, reply: $0) }
            Self.logState(of: configured, among: try Self.wait { keys.keys(reply: $0) }, logger)
            return
        }
        let key = makeKey()
        // A configured webhook secret is known to the operator already.
        let text = announcement(
            of: key, address: address, showsWebhookSecret: configuration.webhookSecret == nil)
        try Self.wait {
            keys.createFirstKey(
                record(key, name: "first admin key"),
                show: { Self.show(text) }, reply: $0)
        }
    }

    /// Logs if the configured key is revoked, and if an earlier configured key is still valid.
    private static func logState(of configured: APIKey, among keys: [APIKey], _ logger: Logger) {
        for key in keys {
            if key.hash == configured.hash, let revokedAt = key.revokedAt {
                logger.error(
                    "FERRY_ADMIN_KEY was revoked. Set another one, or none.",
                    metadata: ["key": "\(key.id)", "revoked_at": "\(revokedAt)"])
            } else if key.hash != configured.hash, key.name == configured.name, key.revokedAt == nil {
                logger.warning(
                    "An earlier FERRY_ADMIN_KEY is still valid. Revoke it when no node uses it.",
                    metadata: ["key": "\(key.id)"])
            }
        }
    }

    /// Makes a request to the store and waits up to 30 s for its reply.
    static func wait<Value: Sendable>(
        _ request: (@escaping @Sendable (Result<Value, StoreError>) -> Void) -> Void
    ) throws -> Value {
        let replies = Mailbox<Result<Value, StoreError>>()
        request { replies.send($0) }
        switch replies.wait(milliseconds: 30_000).first {
        case .success(let value)?: return value
        case .failure(.unavailable)?, nil:
            throw Configuration.Failure(
                description: "The database did not respond to this node. See the log.")
        case .failure(let error)?: throw error
        }
    }

    /// Returns the text that is shown once, with an example to copy.
    private func announcement(of key: String, address: String, showsWebhookSecret: Bool) -> String {
        var text = "\nThe admin key, shown this once:  \(key)\n"
        if showsWebhookSecret { text += "Webhooks are signed with:         \(webhookSecret.text)\n" }
        return text + """

            Try it:

              export FERRY_URL=\(address) FERRY_KEY=\(key)
              curl -s $FERRY_URL/v1/jobs -H "Authorization: Bearer $FERRY_KEY" \\
                -H 'Content-Type: application/json' -H 'Prefer: wait=20' \\
                -d '{"kind":"download","request":{"url":"https://www.debian.org/"},
                     "destination":{"path":"debian.html"}}'


            """
    }
}
