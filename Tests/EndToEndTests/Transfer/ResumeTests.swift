import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Downloads go on", .onOwnThread)
struct ResumeTests {
    @Test("ten times kill -9 in the middle cost less than one percent, and the file is whole")
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
            #expect(arrived(size / 11 * cut, id, ferry), "cut \(cut)")
            // A moment later the bytes are in the file, and its record beside it.
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

    /// Whether so many bytes have come, those of earlier attempts included.
    private func arrived(_ count: Int, _ id: String, _ ferry: FerryProcess) -> Bool {
        becomes {
            try ferry.json("GET", "/v1/jobs/\(id)")["progress"]?["bytes_received"]?.integer == Int64(count)
        }
    }

    private func byteCount(of path: String) -> Int {
        var status = stat()
        return lstat(path, &status) == 0 ? Int(status.st_size) : -1
    }

    /// The first attempt's file serves all of them.
    private func partials(_ id: String) -> Set<String> {
        [".ferry-\(id)-1.part", ".ferry-\(id)-1.part.json"]
    }
}
