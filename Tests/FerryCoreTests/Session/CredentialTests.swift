import FerryCore
import Testing

@Suite("Credentials of sessions")
struct CredentialTests {
    private func draft(_ text: String, hasNTLM: Bool = true) throws -> CredentialDraft {
        var node = NodeAbilities()
        node.hasNTLM = hasNTLM
        return try CredentialDraft(
            JSONView(parsing: Array(text.utf8)), node: node, seal: { $0.map { ~$0 } })
    }

    private func errors(_ text: String, hasNTLM: Bool = true) -> [String] {
        do {
            _ = try draft(text, hasNTLM: hasNTLM)
            return []
        } catch {
            return (error as? InvalidFields)?.errors.map { "\($0.pointer) \($0.code)" } ?? ["\(error)"]
        }
    }

    @Test("a credential is read with the defaults of its space, and its stored form has no secret")
    func reading() throws {
        let draft = try draft(
            #"{"protection_space":{"host":"FILES.Example"},"user":"anna","password":"hush"}"#)
        #expect(draft.credential.space.origin == "https://files.example:443")
        #expect(draft.credential.space.method == .any && draft.credential.space.realm == nil)
        #expect(draft.credential.persistence == .forSession && draft.credential.user == "anna")
        #expect(draft.secrets.connection?.password == "hush")
        let stored = draft.credential.encodedStored
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        #expect(!String(decoding: draft.sealedSecrets, as: UTF8.self).contains("hush"))
        #expect(try SessionCredential(storedJSON: stored) == draft.credential)
        #expect(throws: StoredJSONError.self) {
            _ = try SessionCredential(storedJSON: Array(#"{"protection_space":{"method":7}}"#.utf8))
        }
    }

    @Test(
        "hosts are normalised as in URLs",
        arguments: [
            ("\u{FC}ber.example", "xn--ber-goa.example"), ("127.1", "127.0.0.1"), ("[0:0::1]", "[::1]"),
            ("a.example.", "a.example."),
        ])
    func hosts(_ given: String, _ host: String) throws {
        let draft = try draft(
            #"{"protection_space":{"scheme":"http","host":"\#(given)","port":8080},"token":"t"}"#)
        #expect(draft.credential.space.origin == "http://\(host):8080")
    }

    @Test(
        "a wrong credential is refused with the place of each error",
        arguments: [
            (#"{}"#, ["#/protection_space required"]),
            (#"{"protection_space":{},"token":"t"}"#, ["#/protection_space/host required"]),
            (
                #"{"protection_space":{"host":"a.example:80"},"token":"t"}"#,
                ["#/protection_space/host invalid_value"]
            ),
            (
                #"{"protection_space":{"host":"u@a.example"},"token":"t"}"#,
                ["#/protection_space/host invalid_value"]
            ),
            (
                #"{"protection_space":{"host":"a.example/x"},"token":"t"}"#,
                ["#/protection_space/host invalid_value"]
            ),
            (
                #"{"protection_space":{"host":"a.example","port":0},"token":"t"}"#,
                ["#/protection_space/port out_of_range"]
            ),
            (
                #"{"protection_space":{"host":"a.example","scheme":"ftp"},"token":"t"}"#,
                ["#/protection_space/scheme invalid_value"]
            ),
            (
                #"{"protection_space":{"host":"a.example"},"persistence":"none","token":"t"}"#,
                ["#/persistence invalid_value"]
            ),
            (#"{"protection_space":{"host":"a.example"}}"#, ["#/user required", "#/password required"]),
            (#"{"protection_space":{"host":"a.example"},"user":"u"}"#, ["#/password required"]),
            (
                #"{"protection_space":{"host":"a.example","method":"bearer"},"user":"u","password":"p"}"#,
                ["#/user invalid_combination", "#/password invalid_combination", "#/token required"]
            ),
            (
                #"{"protection_space":{"host":"a.example","method":"digest"},"token":"t"}"#,
                ["#/user required", "#/password required", "#/token invalid_combination"]
            ),
            (
                #"{"protection_space":{"host":"a.example","proxy":true},"token":"t"}"#,
                ["#/user required", "#/password required", "#/token invalid_combination"]
            ),
            (
                #"{"protection_space":{"host":"a.example","proxy":true,"method":"bearer"},"token":"t"}"#,
                ["#/protection_space/method invalid_combination"]
            ),
            (
                #"{"protection_space":{"host":"a.example","method":"ntlm"},"user":"u","password":"p"}"#,
                ["#/protection_space/method not_supported"]
            ),
        ])
    func refusals(_ text: String, _ expected: [String]) {
        #expect(errors(text, hasNTLM: false).sorted() == expected.sorted(), "\(text)")
    }

    @Test(
        "what later versions will support is refused as not supported",
        arguments: ["negotiate", "client_certificate", "aws_sigv4"])
    func methods(_ name: String) {
        #expect(
            errors(#"{"protection_space":{"host":"a.example","method":"\#(name)"},"token":"t"}"#)
                == ["#/protection_space/method not_supported"])
    }

    @Test(
        "members of other kinds of credentials are refused as not supported",
        arguments: ["oauth2", "client_certificate", "access_key_id"])
    func members(_ name: String) {
        let found = errors(#"{"protection_space":{"host":"a.example"},"token":"t","\#(name)":{}}"#)
        #expect(found == ["#/\(name) not_supported"])
    }

    @Test("a cache without credentials returns none, and the latest snapshot decides")
    func cache() throws {
        let draft = try draft(#"{"protection_space":{"host":"a.example"},"token":"t"}"#)
        let (key, now) = (SessionKey(tenant: "acme", name: "s"), Timestamp(microseconds: 0))
        let snapshot = { (epoch: Int64, credentials: [CredentialRecord]) in
            let record = SessionRecord(
                key, revision: 1, epoch: epoch, createdAt: now, updatedAt: now,
                configuration: SessionConfiguration(), credentials: credentials)
            return SessionSnapshot(epoch: epoch, removal: 0, records: [key: record])
        }
        let credential = CredentialRecord(
            "a", revision: 1, createdAt: now, updatedAt: now, credential: draft.credential,
            secrets: draft.secrets)
        let cache = SessionCache()
        #expect(cache.credentials(of: "acme", "s").isEmpty)
        cache.put(snapshot(2, [credential]))
        #expect(cache.credentials(of: "acme", "s").map(\.name) == ["a"])
        #expect(cache.credentials(of: "acme", "other").isEmpty)
        #expect(cache.credentials(of: "other", "s").isEmpty)
        cache.put(snapshot(1, []))
        #expect(cache.credentials(of: "acme", "s").count == 1)
        cache.put(snapshot(3, []))
        #expect(cache.credentials(of: "acme", "s").isEmpty)
    }
}
