import FerryCore
import Synchronization
import TestSupport
import Testing

@testable import FerryEngine

/// The memory between the server and the store of a copy.
@Suite struct FetchedFileTests {
    private static let part: Int64 = 4 << 20

    private final class Demands: Sendable {
        private let count = Mutex(0)
        var drainedCount: Int { count.withLock { $0 } }
        func add(_ demand: FetchDemand) { if case .drained = demand { count.withLock { $0 += 1 } } }
    }

    private static func file(_ byteCount: Int64?, budget: Int) throws -> (FetchedFile, Demands) {
        let demands = Demands()
        let file = try FetchedFile(
            byteCount: byteCount, identity: nil, partByteCount: part, budget: BufferBudget(byteCount: budget)
        ) { demands.add($0) }
        return (file, demands)
    }

    /// Writes as much as there is room for. Returns how much.
    private static func fill(_ file: FetchedFile, _ bytes: ArraySlice<UInt8>) -> Int {
        var done = 0
        while done < bytes.count {
            let next = bytes.dropFirst(done).prefix(100_000)
            guard file.hasRoom(for: next.count) else { break }
            next.withUnsafeBytes { file.write($0) }
            done += next.count
        }
        return done
    }

    private static func read(_ file: FetchedFile, at offset: Int64, _ count: Int) throws -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        guard
            case .bytes(let found) = try bytes.withUnsafeMutableBytes({ try file.read(into: $0, at: offset) })
        else { return nil }
        return Array(bytes.prefix(found))
    }

    @Test("holds the whole of a content that is not larger than four parts, and gives up none of it")
    func small() throws {
        let bytes = patternBytes(Int(4 * Self.part))
        let (file, demands) = try Self.file(Int64(bytes.count), budget: 1 << 30)
        #expect(Self.fill(file, bytes[...]) == bytes.count && !file.isFull)
        file.finish()
        file.release(upTo: Self.part)
        #expect(try Self.read(file, at: 0, bytes.count) == bytes)
        #expect(try Self.read(file, at: Int64(bytes.count), 10) == [] && demands.drainedCount == 0)
    }

    @Test(
        "holds four parts of a larger content, or hardly more than one if others need the memory",
        arguments: [true, false])
    func large(hasBudget: Bool) throws {
        let bytes = patternBytes(Int(6 * Self.part))
        let (file, demands) = try Self.file(nil, budget: hasBudget ? 1 << 30 : 1 << 20)
        let window = hasBudget ? 4 * Self.part : Self.part + 1 << 20
        var written = Self.fill(file, bytes[...])
        #expect((Int(window) - 100_000...Int(window)).contains(written) && file.isFull)
        #expect(try Self.read(file, at: Int64(written), 1) == nil)
        file.release(upTo: Self.part)
        #expect(demands.drainedCount == 1 && !file.isFull)
        #expect(throws: TransferError.self) { try Self.read(file, at: Self.part - 1, 1) }
        let more = Self.fill(file, bytes[written...])
        #expect(abs(more - Int(Self.part)) <= 100_000)
        let from = Int(Self.part)
        #expect(try Self.read(file, at: Self.part, 1 << 20) == Array(bytes[from..<(from + 1 << 20)]))
        written += more
        #expect(file.writtenByteCount == Int64(written) && file.byteCount == nil && !file.isWhole)
        file.finish()
        #expect(file.byteCount == Int64(written) && file.isWhole)
    }

    @Test("gives back the memory that it has reserved")
    func budget() throws {
        let budget = BufferBudget(byteCount: 5 << 20)
        func make() throws -> FetchedFile {
            try FetchedFile(
                byteCount: 3 << 20, identity: nil, partByteCount: Self.part, budget: budget
            ) { _ in }
        }
        let first = try make()
        #expect(budget.claim(3 << 20) == nil)
        withExtendedLifetime(first) {}
        _ = consume first
        #expect(budget.claim(5 << 20) != nil)
    }

    @Test("tells why its bytes cannot come")
    func failure() throws {
        let (file, _) = try Self.file(nil, budget: 0)
        let error = TransferError(.sourceChanged, "x", phase: .sending, isRetryable: true)
        file.fail(error)
        file.fail(TransferError(.internalError, "y", phase: .sending, isRetryable: true))
        #expect(file.failure?.code == .sourceChanged)
    }
}
