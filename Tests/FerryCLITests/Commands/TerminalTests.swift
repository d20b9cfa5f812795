import FerryCLI
import Testing

@Suite("Text from other parties")
struct TerminalTests {
    private static let job =
        #"{"id":"job_a","state":"failed\u001b[2J","kind":"data","description":"\u001b]0;x\u0007\nstate: b","#
        + #""request":{"url":"http://a/\tb\u202e\u009b1m"},"error":{"message":"\r\u001b[1A\u007f"}}"#

    /// Returns `true` if the text moves the cursor only to the next line or tab stop.
    private func isPlain(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { scalar in
            switch scalar.value {
            case 0x09, 0x0A: true
            case 0..<0x20, 0x7F..<0xA0, 0x202A...0x202E: false
            default: true
            }
        }
    }

    @Test("control characters are replaced in text and tables but not in JSON")
    func jobs() throws {
        let service = try FakeService { request in
            request.path == "/v1/jobs/job_a"
                ? (200, Self.job) : (200, #"{"data":[\#(Self.job)],"next_cursor":null}"#)
        }
        defer { service.stop() }
        let options = ["--url", service.url]
        let shown = run(Show.self, ["job_a"] + options, isTerminal: true)
        #expect(shown.status == 0 && isPlain(shown.out))
        #expect(shown.out.split(separator: "\n").count { $0.hasPrefix("state:") } == 1)
        let table = run(Jobs.self, options, isTerminal: true)
        #expect(table.out.split(separator: "\n").count == 2 && isPlain(table.out))
        let lines = run(Jobs.self, options)
        let columns = lines.out.split(separator: "\t", omittingEmptySubsequences: false)
        #expect(columns.count == 7 && isPlain(lines.out))
        #expect(run(Show.self, ["job_a", "--json"] + options).out == Self.job + "\n")
    }

    @Test("control characters of an error response are replaced")
    func refusals() throws {
        let service = try FakeService { _ in
            (409, #"{"detail":"a\u001b[2J\nb","code":"invalid_state\u009b1m","status":409}"#)
        }
        defer { service.stop() }
        let refused = run(Show.self, ["job_a", "--url", service.url])
        #expect(refused.status == 1 && isPlain(refused.err))
        #expect(refused.err.split(separator: "\n").count == 1)
    }
}
