import FerryCore
import Testing

/// `request.resumable_upload`, and resume data of uploads.
@Suite struct ResumableUploadFieldTests {
    private static func job(_ request: String, kind: String = "upload") -> String {
        let source = kind == "upload" ? #","source":{"path":"a"}"# : ""
        return #"{"kind":"\#(kind)","request":{"url":"https://a.example/x?s=1"\#(request)}\#(source)}"#
    }

    @Test("the protocol determines the method; auto is the default")
    func values() throws {
        let rules: [(String, JobSpec.ResumableUploads, String)] = [
            ("", .auto, "PUT"), (#","resumable_upload":"never""#, .never, "PUT"),
            (#","resumable_upload":"ietf""#, .ietf, "PUT"), (#","resumable_upload":"tus""#, .tus, "POST"),
            (#","resumable_upload":"ietf","method":"PATCH""#, .ietf, "PATCH"),
        ]
        for (request, mode, method) in rules {
            let spec = try decode(Self.job(request)).spec
            #expect(spec.request.resumableUploads == mode && spec.request.method == method)
        }
    }

    @Test(
        "a demanded protocol excludes methods without it and its own header fields; only uploads have it",
        arguments: [
            (#","resumable_upload":"tus","method":"PUT""#, "upload", "#/request/method"),
            (#","resumable_upload":"ietf","method":"REPORT""#, "upload", "#/request/method"),
            (
                #","resumable_upload":"ietf","headers":{"Upload-Offset":"0"}"#, "upload",
                "#/request/resumable_upload"
            ),
            (#","resumable_upload":"always""#, "upload", "#/request/resumable_upload"),
            (#","resumable_upload":"tus""#, "download", "#/request/resumable_upload"),
        ])
    func combinations(request: String, kind: String, pointer: String) {
        #expect(errors(Self.job(request, kind: kind)).map(\.pointer) == [pointer])
    }

    @Test("resume data continues a job of its own kind, with its URL")
    func resumeData() throws {
        let upload = ResumableUpload(
            dialect: .ietf, target: "https://a.example/x", url: "https://a.example/u/1",
            keepsCredentials: true, byteCount: 5, body: "x")
        for point in [
            ResumePoint(
                tenant: "t", job: JobID(high: 1, low: 2), url: "https://a.example/x?s=2",
                location: .managedFile, upload: upload),
            ResumePoint(
                tenant: "t", job: JobID(high: 1, low: 2), url: "https://a.example/x?s=2",
                location: .managedFile),
        ] {
            func read(_ text: String) throws -> JobRequest {
                try JobRequest(
                    JSONView(parsing: Array(text.utf8)), refusal: { _ in nil }, resumePoint: { _ in point })
            }
            let texts = [
                #"{"kind":"upload","source":{"path":"a"},"resume_data":"x"}"#,
                #"{"kind":"download","resume_data":"x"}"#,
            ]
            let (right, wrong) = point.upload == nil ? (texts[1], texts[0]) : (texts[0], texts[1])
            let job = try read(right)
            #expect(job.spec.request.url == point.url && job.secrets.resumePoint == point)
            #expect(throws: InvalidFields.self) { try read(wrong) }
        }
    }
}
