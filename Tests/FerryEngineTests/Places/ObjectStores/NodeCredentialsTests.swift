import FerryCore
import Sys
import TestSupport
import Testing

@testable import FerryEngine

@Suite("Credentials of the node")
struct NodeCredentialsTests {
    private func object(_ bucket: String, at endpoint: String? = nil) -> JobSpec.StoreObject {
        var object = JobSpec.StoreObject()
        (object.bucket, object.endpoint, object.key) = (bucket, endpoint, "k")
        return object
    }

    @Test("an entry covers the objects of its tenant in its bucket at its store")
    func allowances() throws {
        let store = "https://minio.example:9000"
        let allowances = try StoreAllowances([
            "acme:reports", "acme:logs@\(store)/", "*:public", "zoo:*@HTTPS://minio.example:9000",
        ])
        #expect(allowances.cover(object("reports"), of: "acme"))
        #expect(!allowances.cover(object("reports"), of: "zoo"))
        #expect(!allowances.cover(object("reports", at: store), of: "acme"))
        #expect(allowances.cover(object("logs", at: store), of: "acme"))
        #expect(!allowances.cover(object("logs"), of: "acme"))
        #expect(!allowances.cover(object("logs", at: "https://minio.example:9001"), of: "acme"))
        #expect(!allowances.cover(object("logs", at: "http://minio.example:9000"), of: "acme"))
        #expect(allowances.cover(object("public"), of: "acme") && allowances.cover(object("public"), of: "b"))
        #expect(allowances.cover(object("any", at: store), of: "zoo"))
        #expect(!allowances.cover(object("any"), of: "zoo"))
        #expect(try !StoreAllowances([]).cover(object("reports"), of: "acme"))
    }

    @Test(
        "an entry of another form is refused",
        arguments: [
            "acme", "acme:", ":reports", "acme:a b", "acme:reports@", "acme:reports@minio", "a b:reports",
            "acme:reports@https://h.example/p", "acme:reports@https://h.example/?q", "acme:reports@http://",
        ])
    func wrong(entry: String) {
        #expect(throws: StoreAllowances.InvalidEntry.self) { try StoreAllowances(["*:*", entry]) }
    }

    private func credentials(_ environment: [String: String]) throws -> NodeCredentials {
        NodeCredentials(try StoreAllowances(["acme:reports"]), environment: environment)
    }

    @Test("the key of the environment precedes the file, and is for allowed objects only")
    func environment() throws {
        let credentials = try credentials([
            "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token",
            "HOME": "/nonexistent",
        ])
        let key = AccessKey(accessKeyID: "id", secretAccessKey: "secret", sessionToken: "token")
        #expect(credentials.key(for: object("reports"), of: "acme") == key)
        #expect(credentials.key(for: object("others"), of: "acme") == nil)
        #expect(credentials.key(for: object("reports"), of: "others") == nil)
        #expect(!credentials.lacksKey)
        let half = try self.credentials(["AWS_ACCESS_KEY_ID": "id", "HOME": "/nonexistent"])
        #expect(half.key(for: object("reports"), of: "acme") == nil && half.lacksKey)
        #expect(try !NodeCredentials(StoreAllowances([]), environment: [:]).lacksKey)
    }

    @Test("the file is read again when it has changed")
    func file() throws {
        let directory = try TemporaryDirectory.make("credentials")
        defer { TemporaryDirectory.remove(directory) }
        let path = "\(directory)/credentials"
        let variables = ["AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "ferry"]
        let credentials = try credentials(variables)
        func write(_ text: String) throws { try writeFile(path, Array(text.utf8)) }
        func key() -> AccessKey? { credentials.key(for: object("reports"), of: "acme") }
        #expect(key() == nil && credentials.lacksKey)
        try write(
            """
            # A comment
            [default]
            aws_access_key_id = other
            aws_secret_access_key = other
            [ferry]
              aws_access_key_id=first
            aws_secret_access_key =  a/b+c=\u{20}
            ; aws_session_token = none

            [last]
            """)
        #expect(key() == AccessKey(accessKeyID: "first", secretAccessKey: "a/b+c=", sessionToken: nil))
        try write(
            "[ferry]\r\nAWS_ACCESS_KEY_ID = second\r\naws_secret_access_key = s\r\naws_session_token = t\r\n")
        #expect(key() == AccessKey(accessKeyID: "second", secretAccessKey: "s", sessionToken: "t"))
        try write("[ferry]\naws_access_key_id = third\n")
        #expect(key() == nil)
    }
}
