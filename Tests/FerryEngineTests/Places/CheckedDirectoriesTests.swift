import FerryCore
import Glibc
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite(.serialized, .onOwnThread) struct CheckedDirectoriesTests {
    private final class Hands: Sendable {
        let now = Atomic<Int64>(0)
        func advance(_ nanoseconds: Int64) { now.wrappingAdd(nanoseconds, ordering: .relaxed) }
    }

    private func job(_ number: UInt64) -> JobID { JobID(high: number, low: number) }

    @Test("a checked directory is known for a second, for each destination in it")
    func time() throws {
        let path = try TemporaryDirectory.make("checked")
        defer { TemporaryDirectory.remove(path) }
        mkdir(path + "/a", 0o755)
        let hands = Hands()
        let checked = CheckedDirectories { hands.now.load(ordering: .relaxed) }
        let root = try StorageDirectory.root(path, .own)
        let first = Destination(root: root, .namedFile(path: "a/x"), job: job(1))
        #expect(checked.directory(of: first) == nil)
        let place = try #require(try first.check())
        checked.note(place, of: first)
        #expect(
            checked.directory(of: Destination(root: root, .namedFile(path: "a/y"), job: job(2))) === place)
        #expect(checked.directory(of: Destination(root: root, .namedFile(path: "y"), job: job(2))) == nil)
        let other = try StorageDirectory.root(path, .own)
        #expect(checked.directory(of: Destination(root: other, .namedFile(path: "a/x"), job: job(1))) == nil)
        hands.advance(EngineLimits.checkedDirectoryTime - 1)
        checked.forgetOld()
        #expect(checked.directory(of: first) === place)
        hands.advance(1)
        #expect(checked.directory(of: first) == nil)
    }

    @Test("at most 64 directories are held, and none after their second")
    func count() throws {
        let path = try TemporaryDirectory.make("checked")
        defer { TemporaryDirectory.remove(path) }
        let hands = Hands()
        let checked = CheckedDirectories { hands.now.load(ordering: .relaxed) }
        let root = try StorageDirectory.root(path, .own)
        let destinations = (0...EngineLimits.checkedDirectoryCountMax).map {
            Destination(root: root, .namedFile(path: "\($0)/x"), job: job(1))
        }
        var places: [StorageDirectory?] = []
        for destination in destinations {
            mkdir("\(path)/\(destination.directory)", 0o755)
            places.append(try destination.check())
            if let place = places.last ?? nil { checked.note(place, of: destination) }
            hands.advance(1)
        }
        #expect(checked.directory(of: destinations[0]) == nil)
        for (destination, place) in zip(destinations, places).dropFirst() {
            #expect(place != nil && checked.directory(of: destination) === place)
        }
        weak let last = places.last ?? nil
        places = []
        #expect(last != nil)
        hands.advance(EngineLimits.checkedDirectoryTime)
        checked.forgetOld()
        #expect(last == nil, "the directory is closed")
    }

    @Test("a missing directory is checked where it will be made, and not noted")
    func missing() throws {
        let path = try TemporaryDirectory.make("checked")
        defer { TemporaryDirectory.remove(path) }
        let checked = CheckedDirectories()
        let destination = Destination(
            root: try StorageDirectory.root(path, .own), .namedFile(path: "new/sub/x"), job: job(1))
        #expect(destination.failure(noting: checked) == nil && checked.directory(of: destination) == nil)
        mkdir(path + "/new", 0o755)
        mkdir(path + "/new/sub", 0o755)
        #expect(destination.failure(noting: checked) == nil && checked.directory(of: destination) != nil)
    }

    @Test(
        "in a known directory, a name that cannot be taken still fails before the request", arguments: [1, 3])
    func names(_ segmentCount: Int) throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        mkdir(fixture.root + "/a", 0o755)
        mkdir(fixture.root + "/a/dir", 0o755)
        func run(_ path: String, _ ifExists: JobSpec.Destination.IfExists) -> AttemptResult? {
            fixture.run(.download, origin.url) {
                $0.to(path, ifExists)
                $0.spec.segmentCountMax = segmentCount
            }
        }
        #expect(run("a/1", .fail)?.success != nil && run("a/2", .fail)?.success != nil)
        let requestCount = origin.requests.count
        #expect(run("a/dir", .replace)?.failure?.code == .destinationInvalid)
        #expect(run("a/1", .fail)?.failure?.code == .destinationExists)
        #expect(origin.requests.count == requestCount)
        // A directory that goes away is made again, as it is without the check.
        TemporaryDirectory.remove(fixture.root + "/a")
        #expect(
            run("a/3", .fail)?.success?.location?.path == "a/3"
                && readFile(fixture.root + "/a/3") == Array("1".utf8))
    }
}
