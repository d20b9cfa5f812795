import FerryCore
import Testing

@testable import FerryEngine

@Suite("Owners of contents")
struct ContentOwnerTests {
    private let job = JobID(high: 1, low: 2)
    private let upload = UploadID(high: 3, low: 4)

    @Test("a key tells the job or the upload that its object belongs to")
    func owners() {
        #expect(ContentOwner(key: "jobs/\(job)/1-00112233") == .job(job))
        #expect(ContentOwner(key: "jobs/\(job)/12-deadbeef") == .job(job))
        let piece = PieceKey(job: job, attempt: "1-00112233", content: "0011223344556677", range: 0..<16)
        #expect(ContentOwner(key: piece.text) == .job(job))
        #expect(ContentOwner(key: ContentObjects.key(for: upload)) == .upload(upload))
    }

    @Test("a key that Ferry does not write has no owner")
    func others() {
        for key in [
            "", "generation", "jobs/\(job)", "jobs/\(job)/1", "jobs/\(job)/1-0011223",
            "jobs/\(job)/1-0011223344", "jobs/\(job)/01-00112233", "jobs/\(job)/a-00112233",
            "jobs/\(job)/1-0011223g", "jobs/\(job)/1-00112233/a", "jobs/x/1-00112233",
            "other/\(job)/1-00112233", "/jobs/\(job)/1-00112233", "jobs/\(job)/1-00112233-00",
            "jobs/\(job)/pieces/1/a/0-016", "jobs/\(job)/pieces/1/a/0", "jobs/\(upload)/1-00112233",
            "uploads/\(upload)", "uploads/\(upload)/00112233", "uploads/\(job)/0011223344556677",
            "uploads/\(upload)/0011223344556677/a",
        ] {
            #expect(ContentOwner(key: key) == nil, "\(key)")
        }
    }
}
