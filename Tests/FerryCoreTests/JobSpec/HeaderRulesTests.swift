import FerryCore
import Testing

@Suite("Secret header fields")
struct HeaderRulesTests {
    @Test(
        "a name is secret in every case, with every separator, and with separators and numbers at its end",
        arguments: [
            "Authorization", "proxy-authorization", "COOKIE", "Cookie2", "Proxy_Authorization", "Cookie-",
            "X-JFrog-Art-Api", "X_JFrog_Art_Api_", "X-Upload-Key", "X-Upload-Key-", "X-Upload-Key--",
            "X_Upload_Key_", "X.Upload.Key.", "X-Upload_Key.", "X-Upload~Key~", "X-Upload-Key-2",
            "X-Upload-Key_2.", "-Key-", "key", "key-", "X-Auth", "X-Auth-", "X-Auth_", "X-Session",
            "X-Session.", "X-Authorization-", "X-Api-Key-Id", "X.Api.Key.Id", "X_Api_Key_Id", "X-ApiKey-V2",
            "X--Api--Key--Id", "X-Token-", "XToken2", "X-Secret_", "My.Password.Field", "X-Passwd-",
            "X-Credential-", "X-Signature-", "X-Surrogate-Key-Key",
        ])
    func secret(_ name: String) { #expect(HeaderRules.isSecret(name), "\(name)") }

    @Test(
        "other names are not secret",
        arguments: [
            "Accept", "X-Keyword", "X-Monkey", "Keys", "X-Author", "Author-", "X-Sessions", "Key-Count",
            "Idempotency-Key", "Idempotency-Key-", "Surrogate_Key", "Partition-Key", "X-Request-Id", "2", "-",
            "Session-Count", "Sec-Fetch-Site", "X-Cookies",
        ])
    func other(_ name: String) { #expect(!HeaderRules.isSecret(name), "\(name)") }

    @Test("names of random parts are judged by their words in lower case")
    func words() {
        var random = SeededRandom(seed: 7)
        let parts = [
            "-", "_", ".", "--", "~", "2", "42", "é", "x", "X", "key", "KEY", "Key2", "auth", "Session",
            "cookie",
            "cookie2", "api", "authorization", "proxy", "jfrog", "art", "token", "secret", "passw",
            "password",
            "passphrase", "credential", "signature", "idempotency", "surrogate", "partition", "s", "apikey",
        ]
        for _ in 0..<20_000 {
            let name = (0..<Int.random(in: 0...6, using: &random))
                .compactMap { _ in parts.randomElement(using: &random) }.joined()
            #expect(HeaderRules.isSecret(name) == isSecretByWords(name), "\(name)")
        }
    }

    /// The rule on a copy of the name.
    private func isSecretByWords(_ name: String) -> Bool {
        var words = name.lowercased().utf8
            .split { !(97...122).contains($0) && !(48...57).contains($0) }
            .map { String(decoding: $0, as: UTF8.self) }
        while let last = words.last, last.utf8.allSatisfy({ $0 < 58 }) { words.removeLast() }
        let whole = words.joined(separator: "-")
        if ["authorization", "proxy-authorization", "cookie", "cookie2", "x-jfrog-art-api"].contains(whole) {
            return true
        }
        let parts = [
            "token", "secret", "password", "passwd", "passphrase", "credential", "signature", "api-key",
            "apikey",
        ]
        if parts.contains(where: whole.contains) { return true }
        return ["key", "auth", "authorization", "session"].contains(words.last ?? "")
            && !["idempotency-key", "surrogate-key", "partition-key"].contains(whole)
    }
}
