import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Excerpts of response bodies", .onOwnThread)
struct ExcerptTests {
    @Test("body_excerpt shows text responses of failed uploads and downloads, and nothing else")
    func excerpts() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let long = String(repeating: "é", count: 3_000)
        let origin = try ScriptedOrigin.answering { request, _ in
            let (status, type, text) =
                switch request.path {
                case "/upload": ("201 Made", "application/vnd.x+json; charset=utf-8", #"{"id":7}"#)
                case "/gone": ("404 No", "application/xml", "<Code>NoSuchKey</Code>")
                case "/long": ("403 No", "text/plain", long)
                case "/binary": ("404 No", "image/png", "PNG")
                case "/coded": ("404 No", "text/plain\r\nContent-Encoding: zstd", "zz")
                default: ("200 OK", "text/plain", "file")
                }
            let head = "HTTP/1.1 \(status)\r\nContent-Type: \(type)\r\nContent-Length: \(text.utf8.count)\r\n"
            return Array("\(head)\r\n\(text)".utf8)
        }
        defer { origin.stop() }
        let excerpt = { (kind: String, path: String) in
            let source = kind == "upload" ? #","source":{"text":"x"}"# : ""
            let job = try ferry.run(
                #"{"kind":"\#(kind)","request":{"url":"\#(origin.url)\#(path)"}\#(source)}"#)
            #expect(job["response"]?["status"]?.integer != nil, "\(job)")
            return job["response"]?["body_excerpt"]?.string
        }
        #expect(try excerpt("upload", "/upload") == nil, "the body is the job's content")
        #expect(try excerpt("upload", "/gone") == "<Code>NoSuchKey</Code>")
        #expect(try excerpt("download", "/gone") == "<Code>NoSuchKey</Code>")
        #expect(try excerpt("download", "/long") == String(repeating: "é", count: 1_024))
        #expect(try excerpt("download", "/binary") == nil)
        #expect(try excerpt("download", "/coded") == nil)
        #expect(try excerpt("download", "/file") == nil)
        #expect(try excerpt("data", "/gone") == nil, "the body is the job's content")
    }
}
