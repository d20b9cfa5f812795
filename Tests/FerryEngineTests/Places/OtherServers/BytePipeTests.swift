import FerryCore
import Synchronization
import TestSupport
import Testing

@testable import FerryEngine

/// The ring between the two servers of a copy, in any order of writes and reads.
@Suite struct BytePipeTests {
    /// What the pipe has demanded.
    private final class Demands: Sendable {
        private let list = Mutex<[String]>([])
        var all: [String] { list.withLock { $0 } }
        func add(_ demand: FetchDemand) { list.withLock { $0.append("\(demand)") } }
    }

    private static func pipe(_ byteCount: Int64? = nil) -> (BytePipe, Demands) {
        let demands = Demands()
        return (BytePipe(byteCount: byteCount, identity: nil) { demands.add($0) }, demands)
    }

    /// `nil`: none yet.
    private static func read(_ pipe: BytePipe, at offset: Int64, _ count: Int) throws -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = try bytes.withUnsafeMutableBytes { try pipe.read(into: $0, at: offset) }
        guard case .bytes(let read) = found else { return nil }
        return Array(bytes.prefix(read))
    }

    private static func write(_ bytes: ArraySlice<UInt8>, _ pipe: BytePipe) {
        bytes.withUnsafeBytes { pipe.write($0) }
    }

    @Test(
        "all bytes come out in order, whatever the sizes of writes and reads are",
        arguments: 0..<20 as Range<UInt64>)
    func order(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let bytes = patternBytes(3_000_000 + Int(seed), seed: seed)
        let (pipe, demands) = Self.pipe(seed % 2 == 0 ? Int64(bytes.count) : nil)
        var (written, result, isRefused, drainCount) = (0, [UInt8](), false, 0)
        result.reserveCapacity(bytes.count)
        while true {
            let next = min(bytes.count - written, Int.random(in: 1...262_144, using: &random))
            if next > 0, !isRefused, Bool.random(using: &random) {
                if pipe.hasRoom(for: next) {
                    Self.write(bytes[written..<(written + next)], pipe)
                    written += next
                    if written == bytes.count { pipe.finish() }
                } else {
                    isRefused = true
                    #expect(pipe.isFull)
                }
            } else {
                let most = Int.random(in: 1...300_000, using: &random)
                guard let found = try Self.read(pipe, at: Int64(result.count), most) else { continue }
                if found.isEmpty { break }
                result += found
                if demands.all.count > drainCount {
                    (drainCount, isRefused) = (demands.all.count, false)
                    #expect(!pipe.isFull)
                }
            }
        }
        #expect(result == bytes)
        #expect(demands.all.allSatisfy { $0 == "drained" })
    }

    @Test("reading waits for bytes, for the end, and for a failure", arguments: ["bytes", "end", "failure"])
    func waits(_ what: String) throws {
        let (pipe, _) = Self.pipe()
        let readable = Signal<Void>()
        #expect(try Self.read(pipe, at: 0, 10) == nil)
        pipe.whenReadable { readable.fire(()) }
        #expect(readable.wait(seconds: 0).isEmpty)
        switch what {
        case "bytes": Self.write([1, 2], pipe)
        case "end": pipe.finish()
        default: pipe.fail(.sourceChanged)
        }
        #expect(readable.wait().count == 1)
        guard what == "failure" else {
            #expect(try Self.read(pipe, at: 0, 10) == (what == "bytes" ? [1, 2] : []))
            return
        }
        let error = #expect(throws: TransferError.self) { try Self.read(pipe, at: 0, 10) }
        #expect(error == .sourceChanged)
    }

    @Test("bytes that were read are fetched again from the beginning")
    func again() throws {
        let (pipe, demands) = Self.pipe(3)
        Self.write([1, 2, 3], pipe)
        pipe.finish()
        #expect(try Self.read(pipe, at: 0, 2) == [1, 2])
        #expect(try Self.read(pipe, at: 0, 2) == nil, "the pipe no longer has them")
        #expect(demands.all == ["restart"] && pipe.awaitsRestart)
        #expect(try Self.read(pipe, at: 0, 2) == nil)
        #expect(demands.all == ["restart"], "they are demanded once")
        pipe.restarted()
        Self.write([1, 2, 3], pipe)
        pipe.finish()
        #expect(try Self.read(pipe, at: 0, 9) == [1, 2, 3])
        #expect(try Self.read(pipe, at: 3, 9) == [])
    }

    private static func reader(_ pipe: BytePipe, sha256: String? = nil) -> BodyReader {
        var integrity = JobSpec.Integrity()
        integrity.sha256 = sha256
        let contents = BodyContents([.source(pipe)], subject: 0)
        return BodyReader(contents, digests: Digests(integrity)) { bytes, digests in
            DigestTail(bytes, digests, fileThreads: FileThreadPool(threadCount: 1)) {}
        }
    }

    private static func read(_ reader: BodyReader, _ count: Int = 100) throws -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = try bytes.withUnsafeMutableBytes { try reader.read(into: $0) }
        guard case .bytes(let read) = found else { return nil }
        return Array(bytes.prefix(read))
    }

    @Test("wrong bytes never leave whole", arguments: [3, nil] as [Int64?])
    func wrong(byteCount: Int64?) throws {
        let (pipe, _) = Self.pipe(byteCount)
        let reader = Self.reader(pipe, sha256: sha256([9]))
        Self.write([1, 2], pipe)
        #expect(try Self.read(reader) == [1, 2])
        Self.write([3], pipe)
        if byteCount == nil { #expect(try Self.read(reader) == [3]) }
        pipe.finish()
        let error = #expect(throws: TransferError.self) { try Self.read(reader) }
        #expect(error?.code == .digestMismatch)
    }

    @Test("an upload that continues in the middle reads and hashes the bytes before it")
    func middle() throws {
        let (pipe, demands) = Self.pipe(5)
        let reader = Self.reader(pipe)
        reader.select(3..<5)
        try reader.rewind()
        #expect(try Self.read(reader) == nil)
        Self.write([1, 2], pipe)
        #expect(try Self.read(reader) == nil)
        Self.write([3, 4, 5], pipe)
        pipe.finish()
        #expect(try Self.read(reader) == [4, 5] && reader.isSent)
        #expect(reader.payload?.sha256 == sha256([1, 2, 3, 4, 5]) && demands.all.isEmpty)
    }

    @Test("an upload that its server has whole is hashed all the same")
    func rest() throws {
        let (pipe, _) = Self.pipe(3)
        let reader = Self.reader(pipe)
        reader.select(3..<3)
        try reader.rewind()
        #expect(reader.isSent && reader.hasUnhashed)
        #expect(try !reader.hashRest())
        Self.write([1, 2, 3], pipe)
        #expect(try reader.hashRest())
        #expect(reader.payload?.sha256 == sha256([1, 2, 3]) && !reader.hasUnhashed)
    }
}
