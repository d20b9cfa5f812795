internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// Reads the body of another node's short response, so that it can be sent in place of the rest of a client's
/// body: such a response must be whole. Any thread.
final class CollectedResponse: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var done: (@Sendable (Response?) -> Void)?
    }
    private let response: Response
    private let stream: any ResponseStream
    private let byteCount: Int
    private let state: Mutex<State>

    /// Calls `done` once: with the whole response, or with `nil` if its body is long or does not come.
    static func collect(_ response: Response, done: @escaping @Sendable (Response?) -> Void) {
        guard case .stream(let stream, let length) = response.body else { return done(response) }
        guard let length, length <= Limits.nodeResponseByteCountMax else {
            stream.cancelled()
            return done(nil)
        }
        let collected = CollectedResponse(response, stream, Int(length), done)
        stream.attach(StreamWaker { collected.step() })
        collected.step()
    }

    private init(
        _ response: Response, _ stream: any ResponseStream, _ byteCount: Int,
        _ done: @escaping @Sendable (Response?) -> Void
    ) {
        self.response = response
        self.stream = stream
        self.byteCount = byteCount
        state = Mutex(State(done: done))
    }

    private func step() {
        let (done, bytes) = state.withLock { state -> ((@Sendable (Response?) -> Void)?, [UInt8]?) in
            guard state.done != nil else { return (nil, nil) }
            var buffer = [UInt8](repeating: 0, count: 4_096)
            while state.bytes.count < byteCount {
                let step = unsafe buffer.withUnsafeMutableBytes { unsafe stream.read(into: $0) }
                switch step {
                case .bytes(let count): state.bytes += buffer[..<count]
                case .wait: return (nil, nil)
                case .end, .fail: return (state.done.take(), nil)
                }
            }
            return (state.done.take(), state.bytes)
        }
        guard let done else { return }
        stream.cancelled()
        var response = response
        response.body = .bytes(bytes ?? [])
        done(bytes == nil ? nil : response)
    }
}
