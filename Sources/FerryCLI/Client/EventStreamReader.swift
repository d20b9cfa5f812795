import Curl
import FerryCore

/// A server-sent event (HTML Standard §9.2).
struct ServerSentEvent: Sendable, Equatable {
    var name = ""
    var data: [UInt8] = []
}

/// Incremental parser of an event stream.
struct EventStreamReader {
    /// Longest line in bytes; the service sends no longer ones.
    private static let lineByteCountMax = 4 << 20

    /// `Last-Event-ID` to continue after the events that were read.
    private(set) var lastEventID: String?
    private var line: [UInt8] = []
    private var event = ServerSentEvent()
    private var id: String?

    init(lastEventID: String?) {
        self.lastEventID = lastEventID
        id = lastEventID
    }

    /// Returns the events that these bytes complete, or `nil` if a line is too long.
    mutating func read(_ bytes: UnsafeRawBufferPointer) -> [ServerSentEvent]? {
        var events: [ServerSentEvent] = []
        for byte in bytes {
            guard byte == UInt8(ascii: "\n") else {
                line.append(byte)
                continue
            }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if line.isEmpty { end(&events) } else { field() }
            line.removeAll(keepingCapacity: true)
        }
        return line.count <= Self.lineByteCountMax ? events : nil
    }

    private mutating func end(_ events: inout [ServerSentEvent]) {
        lastEventID = id
        if !event.data.isEmpty { events.append(event) }
        event = ServerSentEvent()
    }

    private mutating func field() {
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[min(colon + 1, line.endIndex)...]
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        switch String(decoding: line[..<colon], as: UTF8.self) {
        case "event": event.name = String(decoding: value, as: UTF8.self)
        case "id": id = String(decoding: value, as: UTF8.self)
        case "data":
            if !event.data.isEmpty { event.data.append(UInt8(ascii: "\n")) }
            event.data.append(contentsOf: value)
        default: break
        }
    }
}

/// Reason for which following a stream has ended.
enum StreamEnd {
    /// `receive` returned `false`.
    case stopped
    /// Status 204: no more events follow.
    case over
    /// The connection has ended. `hasSpoken`: `true` if bytes of the stream had arrived.
    case broken(hasSpoken: Bool)
    /// The response is not an event stream.
    case refused(status: Int, body: [UInt8])
}

extension ServiceClient {
    /// Follows a stream on this thread for at most `milliseconds`, until `receive` returns `false`. Throws
    /// `unreachable` if there is no response.
    func follow(
        _ path: String, _ reader: inout EventStreamReader, milliseconds: Int,
        _ receive: @escaping (ServerSentEvent) -> Bool
    ) throws(ClientFailure) -> StreamEnd {
        var request = TransferRequest(url: base + path)
        request.headers = headers.filter { $0.name != "Accept" }
        request.headers.append(.init("Accept", "text/event-stream"))
        if let last = reader.lastEventID { request.headers.append(.init("Last-Event-ID", last)) }
        request.totalTimeout = milliseconds
        request.connectTimeout = min(5_000, milliseconds)
        let delegate = FollowingDelegate(reader, receive)
        // An incomplete event is dropped; the next stream sends it again from its beginning.
        defer { reader = EventStreamReader(lastEventID: delegate.reader.lastEventID) }
        do throws(CurlError) {
            try BlockingTransfer.perform(request, delegate: delegate)
        } catch {
            throw ClientFailure(.unreachable, "\(base) could not be reached: \(error.text)")
        }
        if delegate.isStopped { return .stopped }
        if delegate.status == 204 { return .over }
        if delegate.isStream { return .broken(hasSpoken: delegate.hasSpoken) }
        if delegate.status != 0 { return .refused(status: delegate.status, body: delegate.refusal) }
        throw ClientFailure(
            .unreachable, "\(base) could not be reached: \(delegate.error?.text ?? "no response")")
    }
}

private final class FollowingDelegate: EasyDelegate {
    private static let refusalByteCountMax = 65_536

    var reader: EventStreamReader
    private let receive: (ServerSentEvent) -> Bool
    private(set) var status = 0
    private(set) var isStream = false
    private(set) var hasSpoken = false
    private(set) var isStopped = false
    private(set) var refusal: [UInt8] = []
    private(set) var error: CurlError?

    init(_ reader: EventStreamReader, _ receive: @escaping (ServerSentEvent) -> Bool) {
        self.reader = reader
        self.receive = receive
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        let text = String(decoding: line, as: UTF8.self).lowercased()
        if text.hasPrefix("http/") {
            let words = text.split(whereSeparator: \.isWhitespace)
            status = words.count > 1 ? Int(words[1]) ?? 0 : 0
            isStream = false
        } else if text.hasPrefix("content-type:") {
            isStream = status == 200 && text.contains("text/event-stream")
        }
        return true
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard isStream else {
            refusal.append(contentsOf: bytes.prefix(Self.refusalByteCountMax - refusal.count))
            return .proceed
        }
        hasSpoken = true
        guard let events = reader.read(bytes) else { return .abort }
        for event in events where !receive(event) {
            isStopped = true
            return .abort
        }
        return .proceed
    }

    func finished(_ outcome: TransferOutcome) { error = outcome.error }
}
