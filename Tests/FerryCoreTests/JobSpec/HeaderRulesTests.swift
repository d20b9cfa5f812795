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
}
