import FerryCore
import HTTPServer
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("Streams of keys that are no longer valid")
struct KeyStreamsTests {
    private let fixture = Fixture()
    private static let viewer = KeyID(high: 0, low: 2)

    /// A stream, read until it waits.
    private final class Reader {
        let stream: any ResponseStream
        private let woken = Mailbox<Bool>()

        init(_ response: ReceivedResponse) throws {
            guard case .stream(let stream, nil) = response.message.body else {
                throw Problem(.notFound, "no stream")
            }
            self.stream = stream
            stream.attach(StreamWaker { [woken] in woken.send(true) })
        }
        deinit { stream.cancelled() }

        var isWoken: Bool { !woken.take().isEmpty }

        /// Reads until the stream waits or is over. Returns the last step and the number of bytes.
        func read() -> (step: StreamStep, byteCount: Int) {
            var buffer = [UInt8](repeating: 0, count: 1_000)
            var byteCount = 0
            while true {
                let step = buffer.withUnsafeMutableBytes { stream.read(into: $0) }
                guard case .bytes(let count) = step else { return (step, byteCount) }
                byteCount += count
            }
        }
    }

    private func events(_ key: String, _ path: String = "/v1/events") throws -> Reader {
        try Reader(try fixture.send("GET", path, nil, key: key, [("Accept", "text/event-stream")]))
    }

    private func content(_ key: String, of id: JobID) throws -> Reader {
        try Reader(try fixture.send("GET", "/v1/jobs/\(id)/content?follow=true", key: key))
    }

    /// Revokes the viewer's key: here, or on another node, of which this one learns when it reads the keys.
    private func revoke(here: Bool) throws {
        guard here else {
            fixture.store.revokeKey(Self.viewer) { _ in }
            return fixture.api.refreshKeys()
        }
        #expect(try fixture.send("DELETE", "/v1/admin/keys/\(Self.viewer)").status == 204)
    }

    @Test(
        "a revoked key's event streams and followed content end at once; those of other keys go on",
        arguments: [true, false])
    func revoked(here: Bool) throws {
        let job = try fixture.submit()
        let ended = [
            try events(fixture.viewerKey), try events(fixture.viewerKey, "/v1/jobs/\(job)/events"),
        ]
        let content = try content(fixture.viewerKey, of: job)
        fixture.arrivals.set(MemoryContent(file: 5, [1, 2, 3]), of: job)
        for reader in ended + [content] {
            #expect(reader.read().step == .wait)
            _ = reader.isWoken
        }
        let kept = [try events(fixture.clientKey), try self.content(fixture.clientKey, of: job)]
        for reader in kept { #expect(reader.read().step == .wait) }
        try revoke(here: here)
        fixture.store.addEvent(.jobStarted, job)
        for reader in ended {
            #expect(reader.isWoken)
            #expect(reader.read() == (.end, 0))
        }
        #expect(content.isWoken)
        #expect(content.read() == (.fail, 0))
        #expect(kept[0].read().byteCount > 0 && kept[0].read().step == .wait)
        #expect(kept[1].read().step == .wait)
    }

    @Test("a key whose role or tenant changes loses the streams of its former role and tenant")
    func changed() throws {
        let reader = try events(fixture.viewerKey)
        #expect(reader.read().step == .wait)
        fixture.api.refreshKeys()
        #expect(reader.read().step == .wait)
        fixture.store.state.withLock { state in
            guard let index = state.keys.firstIndex(where: { $0.id == Self.viewer }) else { return }
            let key = state.keys[index]
            state.keys[index] = APIKey(
                id: key.id, tenant: "other", role: key.role, name: key.name, hash: key.hash,
                createdAt: key.createdAt)
        }
        fixture.api.refreshKeys()
        #expect(reader.read().step == .end)
        #expect(try events(fixture.viewerKey).read().step == .wait)
    }

    @Test("a stream of a key that was revoked before the response begins is not opened")
    func late() {
        let streams = KeyStreams()
        let owner = Principal(key: Self.viewer, tenant: "default", role: .viewer)
        #expect(streams.open(FollowStream(), for: owner) == nil)
        _ = streams.replace([owner.key: owner])
        let stream = streams.open(FollowStream(), for: owner)
        #expect(stream != nil && streams.count == 1)
        stream?.cancelled()
        #expect(streams.count == 0)
    }
}

/// Keys whose reads are answered when the test says so.
private final class SlowKeys: KeyStore {
    private let replies = Mailbox<Reply<[APIKey]>>()

    func keys(reply: @escaping Reply<[APIKey]>) { replies.send(reply) }
    /// Returns the reads that wait, in their order.
    func reads() -> [Reply<[APIKey]>] { replies.take() }

    func keys(before: KeyID?, limit: Int, reply: @escaping Reply<[APIKey]>) { reply(.failure(.notFound)) }
    func key(_ id: KeyID, reply: @escaping Reply<APIKey>) { reply(.failure(.notFound)) }
    func createKey(_ new: NewKey, reply: @escaping Reply<KeyCreation>) { reply(.failure(.notFound)) }
    func revokeKey(_ id: KeyID, reply: @escaping Reply<Void>) { reply(.failure(.notFound)) }
}

@Suite("Table of valid keys")
struct KeyTableTests {
    private static let key = APIKey(
        id: KeyID(high: 0, low: 7), role: .viewer, name: "a", hash: digest(ofKey: "secret"),
        createdAt: Timestamp(microseconds: 0))

    @Test("a read that began before a revocation and is answered after it does not make the key valid again")
    func order() {
        let store = SlowKeys()
        let table = KeyTable(store, KeyStreams(), adminKey: nil)
        table.refresh { _ in }
        for read in store.reads() { read(.success([Self.key])) }
        #expect(table.principal("secret") != nil)
        table.refresh { _ in }
        table.refresh { _ in }
        let reads = store.reads()
        reads[1](.success([]))
        #expect(table.principal("secret") == nil)
        reads[0](.success([Self.key]))
        #expect(table.principal("secret") == nil)
    }

    @Test("a revoked key is removed if the keys cannot be read again")
    func unreadable() {
        let store = SlowKeys()
        let table = KeyTable(store, KeyStreams(), adminKey: nil)
        table.refresh { _ in }
        for read in store.reads() { read(.success([Self.key])) }
        table.remove(Self.key.id)
        #expect(table.principal("secret") == nil)
    }
}
