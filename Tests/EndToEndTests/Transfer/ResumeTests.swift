import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Resuming after kill -9", .onOwnThread)
struct ResumeTests {
    @Test("a download killed ten times by kill -9 completes with less than 1 % of bytes sent twice")
    func killed() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let size = MeteredOrigin.byteCount
        let origin = try MeteredOrigin(upTo: size / 11)
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/f"},"destination":{"path":"f"}}"#)
        for cut in 1...10 {
            #expect(receives(size / 11 * cut, id, ferry), "cut \(cut)")
            // The bytes and the record reach the disk a moment later.
            let isWritten = becomes {
                byteCount(of: "\(ferry.files)/.ferry-\(id)-1.part") == size / 11 * cut
                    && names(in: ferry.files) == partials(id)
            }
            #expect(isWritten, "cut \(cut)")
            ferry.kill9()
            #expect(names(in: ferry.files) == partials(id))
            origin.allow(upTo: size / 11 * (cut + 1))
            try ferry.start()
        }
        origin.allow(upTo: size)
        let job = try ferry.finished(id)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        #expect(readFile(ferry.files + "/f") == MeteredOrigin.bytes)
        #expect(origin.sentByteCount >= size && origin.sentByteCount <= size + size / 100)
        #expect(names(in: ferry.files) == ["f"])
    }

    /// Returns `true` when the job has received this number of bytes, those of earlier attempts included.
    private func receives(_ count: Int, _ id: String, _ ferry: FerryProcess) -> Bool {
        becomes {
            try ferry.json("GET", "/v1/jobs/\(id)")["progress"]?["bytes_received"]?.integer == Int64(count)
        }
    }

    private func byteCount(of path: String) -> Int {
        var status = stat()
        return lstat(path, &status) == 0 ? Int(status.st_size) : -1
    }

    /// Names of the partial download and its record. All attempts use the file of the first one.
    private func partials(_ id: String) -> Set<String> {
        [".ferry-\(id)-1.part", ".ferry-\(id)-1.part.json"]
    }
}
