import FerryCore
import Testing

@Suite("References of jobs to staged uploads")
struct UploadReferenceTests {
    private let done = NamedUpload(id: UploadID(high: 1, low: 1), name: "done", isComplete: true)
    private let open = NamedUpload(id: UploadID(high: 2, low: 2), name: "open", isComplete: false)

    private func spec(_ parts: [String], _ members: String = "") throws -> JobSpec {
        let parts = parts.joined(separator: ",")
        let json =
            #"{"kind":"data","request":{"url":"https://a.example/","method":"POST","#
            + #""body":{"multipart":[\#(parts)]}}\#(members)}"#
        return try JobRequest(JSONView(parsing: Array(json.utf8)), at: "#", refusal: { _ in nil }).spec
    }

    private func part(_ upload: String) -> String { #"{"name":"f","upload":"\#(upload)"}"# }

    @Test("parts name uploads; the job gets identifiers, and depends once on each that is not complete")
    func parts() throws {
        var spec = try spec([part("done"), #"{"name":"t","text":"x"}"#, part("open"), part("\(open.id)")])
        #expect(
            spec.sourceUploads.map(\.pointer)
                == [0, 2, 3].map { "/request/body/multipart/\($0)/upload" })
        #expect(spec.sourceUploadIDs == [open.id], "names are no identifiers yet")
        try spec.nameUploads(NamedUploads([done, open]), at: "#")
        #expect(spec.sourceUploadIDs == [done.id, open.id])
        #expect(spec.schedule.dependencies == [.upload(open.id)])
        let stored = try JobSpec(storedJSON: spec.encodeStored())
        #expect(stored.sourceUploadIDs == spec.sourceUploadIDs)
        #expect(stored.schedule.uploadsOfDependencies == [open.id])
    }

    @Test("a job that cannot depend on an incomplete upload is refused with the pointer of the part")
    func refused() throws {
        var discretionary = try spec([part("done"), part("open")], #","schedule":{"discretionary":true}"#)
        let error = try #require(throws: InvalidFields.self) {
            try discretionary.nameUploads(NamedUploads([done, open]), at: "#/jobs/4")
        }
        #expect(error.errors.map(\.pointer) == ["#/jobs/4/request/body/multipart/1/upload"])
        var ignoring = try spec([part("open")], #","schedule":{"on_dependency_failure":"ignore"}"#)
        #expect(throws: InvalidFields.self) { try ignoring.nameUploads(NamedUploads([open]), at: "#") }
    }
}
