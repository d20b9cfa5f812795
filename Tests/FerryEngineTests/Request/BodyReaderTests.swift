import FerryCore
import Synchronization
import Sys
import TestSupport
import Testing

@testable import FerryEngine

/// Bodies read from a `ByteSource`, in each order of events that it allows.
@Suite struct BodyReaderTests {
    /// Bytes that come one portion at a time, as from another server.
    private final class Portions: ByteSource {
        private struct State {
            var bytes: [UInt8] = []
            var hasEnded = false
            var waiting: Callback?
        }
        private let state = Mutex(State())
        let byteCount: Int64?
        let rereadableFrom: Int64?
        let identity: String? = nil
        func isKnown(as content: JobContent) -> Bool { false }
        let hashable: DigestTail.Bytes? = nil

        init(byteCount: Int64? = nil, rereadableFrom: Int64? = nil) {
            self.byteCount = byteCount
            self.rereadableFrom = rereadableFrom
        }

        /// `nil`: the end.
        func come(_ bytes: [UInt8]?) {
            let waiting = state.withLock { state in
                if let bytes { state.bytes += bytes } else { state.hasEnded = true }
                defer { state.waiting = nil }
                return state.waiting
            }
            waiting?()
        }

        func read(
            into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
        ) throws(TransferError) -> ByteRead {
            state.withLock { state in
                let found = state.bytes.dropFirst(Int(offset)).prefix(buffer.count)
                if found.isEmpty, !state.hasEnded, byteCount != offset { return .none }
                buffer.copyBytes(from: found)
                return .bytes(found.count)
            }
        }

        func whenReadable(_ body: @escaping @Sendable () -> Void) {
            state.withLock { $0.waiting = Callback(body) }
        }
        func checkUnchanged() throws(TransferError) {}
    }

    private static func reader(_ pieces: [BodyContents.Piece], subject: Int? = nil) -> BodyReader {
        BodyReader(BodyContents(pieces, subject: subject), digests: Digests(JobSpec.Integrity())) {
            bytes, digests in
            DigestTail(bytes, digests, fileThreads: FileThreadPool(threadCount: 1)) {}
        }
    }

    /// `nil`: none yet.
    private static func read(_ reader: BodyReader, _ count: Int = 100) throws -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = try bytes.withUnsafeMutableBytes { try reader.read(into: $0) }
        guard case .bytes(let read) = found else { return nil }
        return Array(bytes.prefix(read))
    }

    @Test("a body pauses while its source has no bytes, and goes on when it has some")
    func pauses() throws {
        let (source, readable) = (Portions(), Signal<Void>())
        let reader = Self.reader([.bytes([1]), .source(source), .bytes([9])], subject: 1)
        #expect(try Self.read(reader) == [1])
        #expect(try Self.read(reader) == nil && !reader.isSent)
        reader.whenReadable { readable.fire(()) }
        source.come([2, 3])
        #expect(readable.wait().count == 1)
        #expect(try Self.read(reader) == [2, 3])
        source.come(nil)
        #expect(try Self.read(reader) == [9] && reader.isSent)
        #expect(try Self.read(reader) == [], "0 bytes are the end")
        #expect(reader.subjectByteCount == 2)
        #expect(try reader.digests.finish() == sha256([2, 3]))
    }

    @Test("the length of a body is known if that of each source is", arguments: [2, nil] as [Int64?])
    func length(_ byteCount: Int64?) {
        let reader = Self.reader([.bytes([1]), .source(Portions(byteCount: byteCount))])
        #expect(reader.byteCount == byteCount.map { $0 + 1 })
    }

    @Test(
        "a body is sent again only if its sources can be read again from byte 0",
        arguments: [0, 5, nil] as [Int64?])
    func again(_ from: Int64?) throws {
        let source = Portions(byteCount: 2, rereadableFrom: from)
        source.come([2, 3])
        let reader = Self.reader([.source(source)], subject: 0)
        try reader.rewind()
        #expect(try Self.read(reader) == [2, 3] && reader.isSent)
        guard from == 0 else {
            let error = #expect(throws: TransferError.self) { try reader.rewind() }
            #expect(error?.code == .requestNotRepeatable)
            return
        }
        try reader.rewind()
        #expect(try Self.read(reader, 1) == [2] && !reader.isSent)
        #expect(try Self.read(reader) == [3] && reader.isSent)
        #expect(try reader.digests.finish() == sha256([2, 3]))
    }

    @Test("a body that was sent before is hashed without being sent, unless its source has not all bytes yet")
    func unsent() throws {
        let whole = Portions(byteCount: 2, rereadableFrom: 0)
        whole.come([2, 3])
        let reader = Self.reader([.source(whole)], subject: 0)
        try reader.hashUnsent()
        #expect(try reader.digests.finish() == sha256([2, 3]) && reader.sent == 0)
        #expect(throws: TransferError.self) {
            try Self.reader([.source(Portions())], subject: 0).hashUnsent()
        }
    }
}
