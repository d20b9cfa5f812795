import FerryCore
import Testing

/// The rules of both protocols: what is sent, and what follows from a response.
@Suite struct UploadConversationTests {
    private typealias Step = UploadConversation.Step

    private static func answer(
        _ status: Int, offset: Int64? = nil, isComplete: Bool? = nil, limit: UploadLimit? = nil,
        tus: Bool = false
    ) -> UploadAnswer {
        var answer = UploadAnswer(status: status)
        (answer.offset, answer.isComplete, answer.limit, answer.speaksTus) = (offset, isComplete, limit, tus)
        return answer
    }

    private static func step(
        _ conversation: inout UploadConversation, _ request: ResumableRequest, _ answer: UploadAnswer,
        hasResource: Bool = true, sent: Int64 = 1_000_000, mayBeginAgain: Bool = true
    ) -> Step {
        conversation.step(
            after: request, answer, hasResource: hasResource, sent: sent, mayBeginAgain: mayBeginAgain)
    }

    private static func first(
        _ dialect: UploadDialect, _ request: ResumableRequest, _ answer: UploadAnswer,
        hasResource: Bool = true, sent: Int64 = 1_000_000, mayBeginAgain: Bool = true
    ) -> Step {
        var conversation = UploadConversation(dialect, byteCount: 1_000_000)
        return step(
            &conversation, request, answer, hasResource: hasResource, sent: sent, mayBeginAgain: mayBeginAgain
        )
    }

    private static func text(_ fields: [NameValuePair]) -> [String] {
        fields.map { "\($0.name): \($0.value)" }
    }

    @Test("fields and bytes of the requests of the draft")
    func draftRequests() {
        var upload = UploadConversation(.ietf, byteCount: 100, version: 8)
        let version = "Upload-Draft-Interop-Version: 8"
        #expect(
            Self.text(upload.fields(of: .creation)) == [version, "Upload-Complete: ?1", "Upload-Length: 100"])
        #expect(
            Self.text(upload.fields(of: .emptyCreation))
                == [version, "Upload-Complete: ?0", "Upload-Length: 100"])
        for request in [ResumableRequest.discovery, .offset, .termination] {
            #expect(Self.text(upload.fields(of: request)) == [version])
            #expect(upload.range(of: request).isEmpty)
        }
        #expect(upload.range(of: .creation) == 0..<100 && upload.range(of: .emptyCreation).isEmpty)
        let limit = UploadLimit(appendByteCountMax: 30)
        #expect(
            Self.step(&upload, .offset, Self.answer(204, offset: 40, limit: limit)) == .next(.append))
        let type = "Content-Type: application/partial-upload"
        #expect(upload.range(of: .append) == 40..<70)
        #expect(
            Self.text(upload.fields(of: .append))
                == [version, type, "Upload-Offset: 40", "Upload-Complete: ?0"])
        #expect(Self.step(&upload, .append, Self.answer(204, offset: 70)) == .next(.append))
        #expect(upload.range(of: .append) == 70..<100)
        #expect(
            Self.text(upload.fields(of: .append))
                == [version, type, "Upload-Offset: 70", "Upload-Complete: ?1"])
    }

    @Test("fields and bytes of the requests of tus")
    func tusRequests() {
        let metadata = UploadMetadata([
            NameValuePair("filename", "ä.txt"), NameValuePair("filetype", "text/plain"),
        ])
        var upload = UploadConversation(.tus, byteCount: 100, metadata: metadata)
        let tus = "Tus-Resumable: 1.0.0"
        #expect(
            Self.text(upload.fields(of: .emptyCreation)) == [
                tus, "Upload-Length: 100", "Upload-Metadata: filename w6QudHh0,filetype dGV4dC9wbGFpbg==",
            ])
        #expect(Self.text(upload.fields(of: .offset)) == [tus])
        #expect(Self.step(&upload, .offset, Self.answer(200, offset: 7, tus: true)) == .next(.append))
        #expect(
            Self.text(upload.fields(of: .append))
                == [tus, "Content-Type: application/offset+octet-stream", "Upload-Offset: 7"])
        #expect(upload.range(of: .append) == 7..<100)
        let plain = UploadConversation(.tus, byteCount: 100)
        #expect(Self.text(plain.fields(of: .emptyCreation)) == [tus, "Upload-Length: 100"])
    }

    @Test("methods, and requests that leave out the fields of the job's body")
    func methods() {
        let methods = ResumableRequest.allCases.map { UploadDialect.ietf.method(of: $0, own: "PUT") }
        #expect(methods == ["OPTIONS", "PUT", "PUT", "HEAD", "PATCH", "DELETE"])
        #expect(UploadDialect.tus.method(of: .emptyCreation, own: "PUT") == "POST")
        let kept = ResumableRequest.allCases.filter { !UploadDialect.ietf.leavesOutContentFields(of: $0) }
        #expect(kept == [.creation, .emptyCreation])
        #expect(UploadDialect.tus.leavesOutContentFields(of: .emptyCreation))
    }

    @Test("a server that a job demands must say that it speaks the draft")
    func discovery() {
        let limit = UploadLimit(byteCountMax: 1_000_000)
        let rules: [(UploadAnswer, Step)] = [
            (Self.answer(204, limit: limit), .next(.emptyCreation)),
            (Self.answer(200, limit: UploadLimit(byteCountMax: 999_999)), .refuse(.tooLarge(999_999))),
            (Self.answer(200), .refuse(.notSpoken)), (Self.answer(405), .refuse(.notSpoken)),
            (Self.answer(501), .refuse(.notSpoken)), (Self.answer(503), .ordinary),
            (Self.answer(401), .ordinary), (Self.answer(307), .ordinary),
        ]
        for (answer, step) in rules { #expect(Self.first(.ietf, .discovery, answer) == step, "\(answer)") }
    }

    @Test("the response to the whole body is that of the target, unless it says that bytes are missing")
    func creation() {
        let limit = UploadLimit(appendByteCountMax: 500)
        let rules: [(UploadAnswer, Bool, Step)] = [
            (Self.answer(201), true, .ordinary), (Self.answer(200, isComplete: true), true, .ordinary),
            (Self.answer(201, isComplete: false), false, .ordinary),
            (Self.answer(201, isComplete: false), true, .next(.offset)),
            (Self.answer(201, offset: 5, isComplete: false), true, .next(.append)),
            (Self.answer(413), true, .ordinary),
            (Self.answer(413, limit: limit), false, .next(.emptyCreation)),
            (
                Self.answer(413, limit: UploadLimit(byteCountMax: 999, appendByteCountMax: 500)), false,
                .ordinary
            ),
            (Self.answer(413, limit: UploadLimit(appendByteCountMax: 1_000_000)), false, .ordinary),
            (Self.answer(500), true, .ordinary), (Self.answer(404), true, .ordinary),
        ]
        for (answer, hasResource, step) in rules {
            #expect(Self.first(.ietf, .creation, answer, hasResource: hasResource) == step, "\(answer)")
        }
    }

    @Test("an upload that is created without its body has an address")
    func emptyCreation() {
        #expect(Self.first(.ietf, .emptyCreation, Self.answer(201)) == .next(.append))
        #expect(
            Self.first(.ietf, .emptyCreation, Self.answer(201), hasResource: false) == .refuse(.notSpoken))
        #expect(Self.first(.ietf, .emptyCreation, Self.answer(404)) == .ordinary)
        #expect(Self.first(.tus, .emptyCreation, Self.answer(201, tus: true)) == .next(.append))
        #expect(Self.first(.tus, .emptyCreation, Self.answer(201)) == .refuse(.notSpoken))
        #expect(Self.first(.tus, .emptyCreation, Self.answer(404)) == .refuse(.notSpoken))
        #expect(Self.first(.tus, .emptyCreation, Self.answer(413, tus: true)) == .ordinary)
        #expect(Self.first(.tus, .emptyCreation, Self.answer(502)) == .ordinary)
        let limit = UploadLimit(byteCountMax: 9)
        #expect(
            Self.first(.ietf, .emptyCreation, Self.answer(201, limit: limit)) == .refuse(.tooLarge(9)))
        var empty = UploadConversation(.tus, byteCount: 0)
        #expect(Self.step(&empty, .emptyCreation, Self.answer(201, tus: true)) == .done)
    }

    @Test("the offset tells where the upload continues, and an unknown one that it is lost")
    func offset() {
        let rules: [(UploadDialect, UploadAnswer, Step)] = [
            (.ietf, Self.answer(204, offset: 5, isComplete: false), .next(.append)),
            (.ietf, Self.answer(204, offset: 1_000_000, isComplete: false), .next(.append)),
            (.ietf, Self.answer(204, offset: 1_000_000, isComplete: true), .done),
            (.ietf, Self.answer(200, isComplete: true), .done),
            (.ietf, Self.answer(204, offset: 1_000_001), .next(.termination)),
            (.ietf, Self.answer(200), .beginAgain), (.ietf, Self.answer(404), .beginAgain),
            (.ietf, Self.answer(410), .beginAgain), (.ietf, Self.answer(400), .beginAgain),
            (.ietf, Self.answer(503), .ordinary), (.ietf, Self.answer(429), .ordinary),
            (.ietf, Self.answer(307), .ordinary), (.ietf, Self.answer(401), .ordinary),
            (.tus, Self.answer(200, offset: 5, tus: true), .next(.append)),
            (.tus, Self.answer(200, offset: 1_000_000, tus: true), .done),
            (.tus, Self.answer(200, offset: 5), .beginAgain), (.tus, Self.answer(403), .beginAgain),
        ]
        for (dialect, answer, step) in rules {
            #expect(Self.first(dialect, .offset, answer) == step, "\(dialect) \(answer)")
        }
        #expect(Self.first(.ietf, .offset, Self.answer(404), mayBeginAgain: false) == .refuse(.lost))
        let more = Self.answer(204, offset: 501, isComplete: false)
        #expect(Self.first(.ietf, .offset, more, sent: 500) == .next(.termination))
    }

    @Test("an append is complete, continues, or follows what the server says")
    func append() {
        let smaller = UploadLimit(appendByteCountMax: 500)
        let rules: [(UploadDialect, UploadAnswer, Step)] = [
            (.ietf, Self.answer(200, isComplete: true), .ordinary),
            (.ietf, Self.answer(422, isComplete: true), .ordinary),
            (.ietf, Self.answer(201, isComplete: false), .next(.offset)),
            (.ietf, Self.answer(204), .next(.offset)),
            (.ietf, Self.answer(204, offset: 9), .next(.append)),
            (.ietf, Self.answer(409, offset: 9, isComplete: false), .next(.append)),
            (.ietf, Self.answer(409), .next(.offset)),
            (.ietf, Self.answer(409, offset: 9, isComplete: true), .next(.offset)),
            (.ietf, Self.answer(413, limit: smaller), .next(.append)), (.ietf, Self.answer(413), .ordinary),
            (.ietf, Self.answer(404), .beginAgain), (.ietf, Self.answer(415), .beginAgain),
            (.ietf, Self.answer(500), .ordinary), (.ietf, Self.answer(308), .ordinary),
            (.ietf, Self.answer(417), .ordinary),
            (.tus, Self.answer(204, offset: 1_000_000, tus: true), .done),
            (.tus, Self.answer(204, offset: 9, tus: true), .next(.append)),
            (.tus, Self.answer(204, tus: true), .next(.offset)), (.tus, Self.answer(204), .beginAgain),
            (.tus, Self.answer(409, offset: 9, tus: true), .next(.offset)),
            (.tus, Self.answer(410, tus: true), .beginAgain),
        ]
        for (dialect, answer, step) in rules {
            #expect(Self.first(dialect, .append, answer) == step, "\(dialect) \(answer)")
        }
        var upload = UploadConversation(.ietf, byteCount: 1_000)
        _ = Self.step(&upload, .append, Self.answer(413, limit: smaller))
        #expect(upload.range(of: .append) == 0..<500)
    }

    @Test("a lost upload is created again once, also after the end of one that cannot be continued")
    func restarts() {
        for request in [ResumableRequest.offset, .append, .termination] {
            var upload = UploadConversation(.ietf, byteCount: 100)
            _ = Self.step(&upload, .offset, Self.answer(204, offset: 50))
            #expect(Self.step(&upload, request, Self.answer(404)) == .beginAgain)
            #expect(upload.offset == 0)
            #expect(Self.step(&upload, request, Self.answer(404)) == .refuse(.lost))
        }
    }

    @Test("requests that bring nothing end the upload; a new byte counts")
    func fruitless() {
        var upload = UploadConversation(.ietf, byteCount: 100)
        for offset in [Int64(1), 2] {
            #expect(Self.step(&upload, .append, Self.answer(204, offset: offset)) == .next(.append))
            for _ in 0..<UploadConversation.fruitlessCountMax {
                #expect(Self.step(&upload, .append, Self.answer(204, offset: offset)) == .next(.append))
            }
        }
        #expect(Self.step(&upload, .append, Self.answer(204, offset: 2)) == .refuse(.stuck))
    }

    @Test("an attempt goes on after an interruption if many bytes have arrived since the last one")
    func interruptions() {
        var upload = UploadConversation(.ietf, byteCount: 1_000_000)
        var goesOn = [upload.interrupted(), upload.interrupted()]
        _ = Self.step(&upload, .offset, Self.answer(204, offset: 65_535))
        goesOn.append(upload.interrupted())
        _ = Self.step(&upload, .offset, Self.answer(204, offset: 65_535 + 65_536))
        goesOn += [upload.interrupted(), upload.interrupted()]
        #expect(goesOn == [true, false, false, true, false])
    }

    @Test("a stored upload is read as it was written; a row of another kind is a redirect or damaged")
    func stored() throws {
        for boundary in [nil, "ferry-1"] {
            let upload = ResumableUpload(
                dialect: .tus, target: "https://example.org/a", url: "https://u:p@a.example/x",
                keepsCredentials: true, byteCount: 5,
                body: "5:ab", boundary: boundary)
            let next = NextRequest.upload(upload)
            #expect(try NextRequest(sealed: next.encode(.inverted), opening: .inverted) == next)
            #expect(next.valid(for: 7) == next)
        }
        let parts = NextRequest.upload(
            ResumableUpload(
                dialect: .s3, target: "https://store.example/b/k", url: "https://store.example/b/k",
                keepsCredentials: true, byteCount: 100 << 20, body: "5:ab",
                parts: .init(upload: "id/+=", byteCount: 16 << 20, haveDigestTags: true)))
        #expect(try NextRequest(sealed: parts.encode(.inverted), opening: .inverted) == parts)
        let damaged = SecretSeal.inverted.seal(Array(#"{"upload": {"protocol": "other"}}"#.utf8))
        #expect(throws: StoredJSONError.self) { try NextRequest(sealed: damaged, opening: .inverted) }
    }
}
