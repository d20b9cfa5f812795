import FerryCore
import Testing

@Suite("Requests for staged uploads")
struct UploadRequestTests {
    private func reader(
        _ fields: [(String, String)], length: Int64? = 3, hasBody: Bool = true
    ) -> UploadRequestReader {
        UploadRequestReader(contentLength: length, hasBody: hasBody) { name in
            fields.filter { $0.0.lowercased() == name.lowercased() }.map(\.1)
        }
    }

    private func body(_ request: UploadRequest) -> UploadBody? {
        switch request {
        case .create(_, let body), .append(let body): body
        case .concatenate: nil
        }
    }

    private func draft(_ version: Int) throws -> UploadDraft? {
        guard
            case .resumable(let draft) = try reader([("Upload-Draft-Interop-Version", "\(version)")]).style
        else { return nil }
        return draft
    }

    // MARK: Protocol

    @Test("fields choose the protocol; Tus-Resumable wins")
    func styles() throws {
        #expect(try reader([]).style == .plain)
        #expect(try reader([("Upload-Offset", "3")]).style == .plain)
        #expect(try reader([("Tus-Resumable", "1.0.0"), ("Upload-Complete", "?1")]).style == .tus)
        #expect(try reader([("Upload-Complete", "?0")]).style == .resumable(.newest))
        #expect(throws: UploadRefusal.version) { try reader([("Tus-Resumable", "0.2.2")]).style }
    }

    @Test(
        "a version that Ferry does not speak is answered as the newest one, without 104",
        arguments: [2, 9, 77])
    func unknownVersions(version: Int) throws {
        #expect(try draft(version) == .newest)
        #expect(!UploadDraft.newest.isNamed)
    }

    @Test("Upload-Limit and the field of completion are spelled as each version does")
    func spelling() throws {
        for version in UploadDraft.versions {
            let draft = try #require(try draft(version))
            #expect(draft.version == version && draft.isNamed)
            let completion = draft.completion(true)
            #expect(completion.name == (version == 3 ? "Upload-Incomplete" : "Upload-Complete"))
            #expect(completion.value == (version == 3 ? "?0" : "?1"))
            #expect(draft.hasLimits == (version >= 6))
            #expect(draft.needsMediaType == (version >= 6))
            let age = version == 6 ? "expires" : "max-age"
            #expect(draft.limits(byteCountMax: nil, seconds: 60) == "min-size=0, \(age)=60")
            #expect(draft.limits(byteCountMax: 9, seconds: 60) == "max-size=9, \(age)=60")
        }
    }

    // MARK: Creation

    @Test("a plain body is the whole upload, and its fields describe it")
    func plain() throws {
        let reader = reader([
            ("Content-Type", "text/csv"), ("Content-Disposition", "inline; filename*=UTF-8''%C3%A4.csv"),
            ("Repr-Digest", "sha-256=:AAAA:"), ("Upload-Metadata", "a eA==,filename eS50eHQ="),
        ])
        guard case .create(let fields, let body) = try reader.creation(.plain) else {
            Issue.record("a creation was expected")
            return
        }
        #expect(fields.contentType == "text/csv" && fields.fileName == "ä.csv")
        #expect(fields.reprDigest == "sha-256=:AAAA:")
        #expect(fields.metadata.pairs == [NameValuePair("a", "x"), NameValuePair("filename", "y.txt")])
        #expect(body.size == 3 && body.completion == .atEnd && body.offset == 0)
    }

    @Test(
        "malformed metadata is refused", arguments: ["a !", "a eA== eA==", "a eA==,a eA==", ",", "a eA==,"])
    func malformedMetadata(text: String) {
        #expect(throws: UploadRefusal.self) { try reader([("Upload-Metadata", text)]).creation(.plain) }
    }

    @Test(
        "a creation says whether its body completes the upload",
        arguments: [
            (3, "Upload-Incomplete", "?0", true), (3, "Upload-Incomplete", "?1", false),
            (5, "Upload-Complete", "?1", true), (6, "Upload-Complete", "?0", false),
            (7, "Upload-Complete", "?1;a=b", true), (8, "Upload-Complete", "?0", false),
        ])
    func creation(version: Int, name: String, value: String, completes: Bool) throws {
        let reader = reader([("Upload-Draft-Interop-Version", "\(version)"), (name, value)])
        let body = try #require(body(try reader.creation(try reader.style)))
        #expect(body.completion == (completes ? .atEnd : .never))
        #expect(body.size == (completes ? 3 : nil))
    }

    @Test("Upload-Length counts, and a wrongly typed one is ignored")
    func lengths() throws {
        func size(_ text: String) throws -> Int64? {
            body(try reader([("Upload-Length", text)]).creation(.resumable(.newest)))?.size
        }
        #expect(try size("10") == 10)
        #expect(try size("?1") == 3)
        #expect(try size("-1") == 3)
    }

    // MARK: Appending

    @Test("an append names its offset; from version 6 on its media type, from 7 on whether it is the last")
    func appending() throws {
        for version in UploadDraft.versions {
            let draft = try #require(try draft(version))
            let offset = ("Upload-Offset", "7")
            let type = ("Content-Type", "application/partial-upload")
            let last = (draft.completion(true).name, draft.completion(true).value)
            let body = try #require(body(try reader([offset, type, last]).append(.resumable(draft))))
            #expect(body.offset == 7 && body.size == 10 && body.completion == .atEnd)
            #expect(throws: UploadRefusal.self) { try reader([type, last]).append(.resumable(draft)) }
            let withoutType = Result { try reader([offset, last]).append(.resumable(draft)) }
            #expect((try? withoutType.get()) == nil || version < 6)
            let open = Result { try reader([offset, type]).append(.resumable(draft)) }
            if version >= 7 {
                #expect((try? open.get()) == nil)
            } else {
                // In version 3, a request without the field is the last one.
                #expect(self.body(try open.get())?.completion == (version == 3 ? .atEnd : .never))
            }
        }
    }

    @Test("an offset beyond 63 bits is refused")
    func overflow() {
        let fields = [
            ("Upload-Offset", "999999999999999"), ("Upload-Complete", "?1"),
            ("Content-Type", "application/partial-upload"),
        ]
        #expect(throws: UploadRefusal.self) {
            try reader(fields, length: .max).append(.resumable(.newest))
        }
    }

    // MARK: tus

    private let tusType = ("Content-Type", "application/offset+octet-stream")

    @Test("tus creates with a length or a deferred one, and completes at the length")
    func tusCreation() throws {
        let named = try #require(
            body(try reader([("Upload-Length", "10"), tusType]).creation(.tus)))
        #expect(named.size == 10 && named.completion == .atSize)
        let deferred = try #require(
            body(try reader([("Upload-Defer-Length", "1")], hasBody: false).creation(.tus)))
        #expect(deferred.size == nil)
        for fields in [
            [], [("Upload-Defer-Length", "2")], [("Upload-Length", "x")],
            [("Upload-Length", "1"), ("Upload-Defer-Length", "1")],
        ] {
            #expect(throws: UploadRefusal.self) { try reader(fields, hasBody: false).creation(.tus) }
        }
        #expect(throws: UploadRefusal.mediaType("application/offset+octet-stream")) {
            try reader([("Upload-Length", "10"), ("Content-Type", "text/plain")]).creation(.tus)
        }
    }

    @Test("a checksum of tus becomes a digest of the body; unknown algorithms are refused")
    func checksums() throws {
        func digest(_ text: String) throws -> String? {
            body(try reader([("Upload-Offset", "0"), tusType, ("Upload-Checksum", text)]).append(.tus))?
                .contentDigest
        }
        #expect(try digest("sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=") == "sha=:Kq5sNclPz7QV2+lfQIuc6R7oRu0=:")
        #expect(try digest("sha256 AAAA") == "sha-256=:AAAA:")
        #expect(try digest("sha512 AAAA") == "sha-512=:AAAA:" && digest("crc32 AAAA") == "crc32=:AAAA:")
        for text in ["crc64 AAAA", "sha1", "sha1 !"] {
            #expect(throws: UploadRefusal.self) { try digest(text) }
        }
    }

    @Test("a final upload names its parts by their paths")
    func concatenation() throws {
        let id = UploadID(high: 1, low: 2)
        let fields = [("Upload-Concat", "final;/v1/uploads/\(id) http://a/v1/uploads/b")]
        guard case .concatenate(let named, let parts) = try reader(fields, hasBody: false).creation(.tus)
        else {
            Issue.record("a concatenation was expected")
            return
        }
        #expect(parts == [.id(id), .name("b")])
        #expect(named.concatenation == fields[0].1)
        for text in ["final;", "whole", "final;/v1/uploads/.."] {
            #expect(throws: UploadRefusal.self) {
                try reader([("Upload-Concat", text)], hasBody: false).creation(.tus)
            }
        }
    }

    @Test("a text is an identifier, a name, or neither")
    func references() {
        let id = UploadID(high: 1, low: 2)
        #expect(UploadReference(id.description) == .id(id))
        #expect(UploadReference("a_b-c.1") == .name("a_b-c.1"))
        for text in ["", ".", "..", "a:b", "a/b", "upl_x", "UPL_x", String(repeating: "a", count: 129)] {
            #expect(UploadReference(text) == nil)
        }
    }

    @Test("an instant is written as an HTTP date")
    func dates() {
        #expect(
            Timestamp(microseconds: 784_111_777_000_000).httpDate == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(Timestamp(microseconds: -1).httpDate == "Wed, 31 Dec 1969 23:59:59 GMT")
    }
}
