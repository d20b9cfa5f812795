import FerryServer
import Glibc
import Logging
import TestSupport
import Testing

@Suite("Log sink") struct LogSinkTests {
    /// Runs `body` with a pipe whose buffer has 4,096 bytes.
    private static func withPipe(_ body: (_ reading: Int32, _ writing: Int32) throws -> Void) throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        // F_SETPIPE_SZ of fcntl(2), which the module map does not contain.
        try #require(fcntl(ends[1], 1031, 4_096) == 4_096)
        try body(ends[0], ends[1])
    }

    private static func read(_ descriptor: Int32, atMost count: Int = 1 << 20) -> [String] {
        var bytes = [UInt8](repeating: 0, count: count)
        let got = Glibc.read(descriptor, &bytes, count)
        let text = String(decoding: bytes.prefix(max(0, got)), as: UTF8.self)
        return text.split(separator: "\n").map(String.init)
    }

    private static func line(_ text: String) -> [UInt8] { Array((text + "\n").utf8) }

    @Test("writing does not block while the reader is stopped, and the lines arrive in order")
    func order() throws {
        try Self.withPipe { reading, writing in
            let sink = LogSink(writing)
            let lines = (0..<300).map { "line \($0) " + String(repeating: "x", count: 100) }
            for line in lines { sink.write(Self.line(line)) { _ in [] } }
            #expect(!sink.flush() && sink.lostCount == 0)
            var got: [String] = []
            while got.joined().utf8.count < lines.joined().utf8.count {
                got += Self.read(reading)
                sink.flush()
            }
            #expect(got.joined() == lines.joined())
            #expect(sink.flush())
        }
    }

    @Test("lines beyond the limit are dropped, and a notice with their number replaces them")
    func lost() throws {
        try Self.withPipe { reading, writing in
            let sink = LogSink(writing, byteCountMax: 2_000)
            // Lines that fill the pipe, lines that wait, and lines that are dropped.
            for number in 0..<100 {
                sink.write(Self.line("\(number) " + String(repeating: "y", count: 96))) { _ in [] }
            }
            let lostCount = sink.lostCount
            #expect(lostCount >= 30 && lostCount < 100)
            while !sink.flush() { _ = Self.read(reading) }
            _ = Self.read(reading)
            sink.write(Self.line("after")) { Self.line("lost \($0)") }
            var got = Self.read(reading)
            // A pipe of one page may split what is written.
            if !sink.flush() || got.count < 2 { got += Self.read(reading) }
            #expect(got == ["lost \(lostCount)", "after"])
        }
    }

    @Test("a long line arrives complete, and finish waits for a slow reader up to its timeout")
    func long() throws {
        try Self.withPipe { reading, writing in
            let sink = LogSink(writing)
            let line = String(repeating: "z", count: 50_000)
            sink.write(Self.line(line)) { _ in [] }
            sink.finish(milliseconds: 1)
            #expect(!sink.flush())
            var got = ""
            while got.utf8.count < line.utf8.count {
                got += Self.read(reading).joined()
                sink.finish(milliseconds: 1)
            }
            #expect(got == line && sink.flush())
        }
    }

    @Test("a message stays one line whatever its values contain")
    func logger() throws {
        try Self.withPipe { reading, writing in
            let sink = LogSink(writing)
            for isJSON in [true, false] {
                var logger = Logger(label: "test") {
                    LineLogHandler(label: $0, level: .info, isJSON: isJSON, sink: sink)
                }
                logger[metadataKey: "always"] = "there"
                logger.notice("two\nlines", metadata: ["b": "x\ty"])
                logger.debug("not this one")
                let lines = Self.read(reading)
                #expect(lines.count == 1)
                let line = try #require(lines.first)
                let part = isJSON ? #""message":"two\nlines","always":"there""# : "two lines always=there"
                #expect(line.contains(part), "\(line)")
            }
        }
    }

    @Test("lines are dropped at once if the reader has gone")
    func gone() throws {
        signal(SIGPIPE, SIG_IGN)
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { close(ends[1]) }
        // Child processes of other tests hold both ends until their exec, or as long as they run.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        close(ends[0])
        var writing = pollfd(fd: ends[1], events: 0, revents: 0)
        try #require(poll(&writing, 1, 120_000) == 1, "nobody has the other end any more")
        let sink = LogSink(ends[1])
        sink.write(Self.line("for nobody")) { _ in [] }
        #expect(sink.flush() && sink.lostCount == 1)
    }
}
