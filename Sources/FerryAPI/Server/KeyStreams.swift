internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// The valid keys, and the open responses of each: event streams and followed content, also what other nodes
/// send. When a key is revoked, expires or changes, its responses end. Any thread.
final class KeyStreams: Sendable {
    private struct State {
        var owners: [KeyID: Principal] = [:]
        var streams: [KeyID: [ObjectIdentifier: KeyedStream]] = [:]
    }
    private let state = Mutex(State())

    /// Number of open responses.
    var count: Int { state.withLock { $0.streams.values.reduce(0) { $0 + $1.count } } }

    /// Returns a stream that ends with its key, or `nil` if the key is not valid any more.
    func open(_ stream: any ResponseStream, for owner: Principal) -> KeyedStream? {
        let keyed = KeyedStream(stream, of: owner, in: self)
        return state.withLock { state in
            guard state.owners[owner.key] == owner else { return nil }
            state.streams[owner.key, default: [:]][ObjectIdentifier(keyed)] = keyed
            return keyed
        }
    }

    fileprivate func remove(_ stream: KeyedStream) {
        state.withLock { state in
            state.streams[stream.owner.key]?[ObjectIdentifier(stream)] = nil
            if state.streams[stream.owner.key]?.isEmpty == true { state.streams[stream.owner.key] = nil }
        }
    }

    /// Sets the valid keys. Returns the streams of the others, and of keys that have changed; the caller ends
    /// them.
    func replace(_ owners: [KeyID: Principal]) -> [KeyedStream] {
        state.withLock { state in
            state.owners = owners
            return state.streams.values.flatMap { streams in
                streams.values.filter { owners[$0.owner.key] != $0.owner }
            }
        }
    }
}

/// A stream that ends when its key is no longer valid: at once, without what waits to be sent.
final class KeyedStream: ResponseStream {
    private struct State {
        var waker: StreamWaker?
        var isOver = false
    }
    /// The stream that is sent.
    let stream: any ResponseStream
    fileprivate let owner: Principal
    private let all: KeyStreams
    private let state = Mutex(State())

    fileprivate init(_ stream: any ResponseStream, of owner: Principal, in all: KeyStreams) {
        self.stream = stream
        self.owner = owner
        self.all = all
    }

    private var isOver: Bool { state.withLock { $0.isOver } }

    /// Ends the response.
    func end() {
        let waker = state.withLock { state in
            state.isOver = true
            return state.waker
        }
        waker?.wake()
    }

    func attach(_ waker: StreamWaker) {
        state.withLock { $0.waker = waker }
        stream.attach(waker)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        // Content that ends early must not look complete.
        if isOver { return stream is EventStream ? .end : .fail }
        return unsafe stream.read(into: buffer)
    }

    func clientStoppedSending() -> Bool { !isOver && stream.clientStoppedSending() }

    func cancelled() {
        state.withLock { $0.waker = nil }
        all.remove(self)
        stream.cancelled()
    }
}
