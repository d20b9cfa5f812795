internal import CMicrohttpd
internal import Glibc
internal import Synchronization

/// Bodies up to this size are copied into libmicrohttpd's response at once; larger ones piece by piece as
/// they are sent.
private let copiedBytes = 262_144
/// Size of the buffer for a stream of known length. For a chunked stream, libmicrohttpd passes the free
/// memory of the connection.
private let blockSize = 32_768

/// Creates libmicrohttpd's response, owned by the caller. Returns `nil` if there is no memory.
func makeResponse(_ response: Response, _ head: RequestHead, _ exchange: RequestExchange) -> OpaquePointer? {
    let made: OpaquePointer? =
        switch response.body {
        case .empty: MHD_create_response_from_buffer(0, nil, .RESPMEM_PERSISTENT)
        case .bytes(let bytes) where bytes.count <= copiedBytes: copied(bytes)
        case .bytes(let bytes): streamed(ArrayStream(bytes), Int64(bytes.count), exchange)
        case .file(let file): fileResponse(file, exchange)
        case .stream(let stream, let length): streamed(stream, length, exchange)
        }
    guard let made else { return nil }
    let fields = response.fields
    fields.bytes.withUnsafeBytes { bytes in
        guard let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self) else { return }
        for entry in fields.entries {
            MHD_add_response_header(made, start + Int(entry.name), start + Int(entry.value))
        }
    }
    for trailer in response.trailers.pairs {
        MHD_add_response_header(made, "Trailer", trailer.name)
        MHD_add_response_footer(made, trailer.name, trailer.value)
    }
    _ = head.requestID.withCString { MHD_add_response_header(made, "X-Request-Id", $0) }
    if exchange.core.isDraining.load(ordering: .relaxed) {
        MHD_add_response_header(made, "Connection", "close")
    }
    return made
}

private func copied(_ bytes: [UInt8]) -> OpaquePointer? {
    bytes.withUnsafeBytes { buffer in
        MHD_create_response_from_buffer(
            buffer.count, UnsafeMutableRawPointer(mutating: buffer.baseAddress), .RESPMEM_MUST_COPY)
    }
}

private func fileResponse(_ file: FileBody, _ exchange: RequestExchange) -> OpaquePointer? {
    let descriptor = file.take()
    guard descriptor >= 0 else { return nil }
    let (offset, length) = (max(file.offset, 0), max(file.length, 0))
    guard let made = MHD_create_response_from_fd_at_offset64(UInt64(length), descriptor, UInt64(offset))
    else {
        close(descriptor)
        return nil
    }
    exchange.state.withLock { $0.file = SentFile(descriptor: descriptor, end: offset + length) }
    return made
}

private func streamed(_ stream: any ResponseStream, _ length: Int64?, _ exchange: RequestExchange)
    -> OpaquePointer?
{
    let reader = StreamReader(stream, length, exchange)
    let context = Unmanaged.passRetained(reader)
    let made = MHD_create_response_from_callback(
        length.map { UInt64(max($0, 0)) } ?? UInt64.max, blockSize, readStream, context.toOpaque(), freeStream
    )
    guard made != nil else {
        context.release()
        return nil
    }
    exchange.state.withLock { $0.stream = stream }
    stream.attach(StreamWaker(target: exchange))
    return made
}

/// Adapter from `ResponseStream` to libmicrohttpd's callback. libmicrohttpd owns it and releases it after the
/// response.
private final class StreamReader: Sendable {
    let stream: any ResponseStream
    let length: Int64?
    let exchange: RequestExchange

    init(_ stream: any ResponseStream, _ length: Int64?, _ exchange: RequestExchange) {
        self.stream = stream
        self.length = length
        self.exchange = exchange
    }

    /// Returns the number of bytes read, 0 if the connection was suspended, or one of libmicrohttpd's two end
    /// values.
    func read(_ position: UInt64, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        if exchange.state.withLock({ $0.isAborted }) { return cmhd_end_with_error() }
        switch stream.read(into: buffer) {
        case .bytes(let count) where count > 0 && count <= buffer.count: return count
        case .bytes, .fail: return cmhd_end_with_error()
        case .wait: return exchange.suspend(.stream) ? 0 : cmhd_end_with_error()
        case .end:
            // A body that is shorter than its announced length must not look complete.
            return length == nil ? cmhd_end_of_stream() : cmhd_end_with_error()
        }
    }
}

private func readStream(
    _ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?,
    _ size: Int
) -> Int {
    guard let context, let buffer else { return cmhd_end_with_error() }
    return Unmanaged<StreamReader>.fromOpaque(context).takeUnretainedValue()
        .read(position, UnsafeMutableRawBufferPointer(start: buffer, count: size))
}

private func freeStream(_ context: UnsafeMutableRawPointer?) {
    guard let context else { return }
    Unmanaged<StreamReader>.fromOpaque(context).takeRetainedValue().stream.cancelled()
}

/// A large array, copied piece by piece as the client reads.
private final class ArrayStream: ResponseStream {
    private let bytes: [UInt8]
    // `read` is called by one thread at a time.
    nonisolated(unsafe) private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }
    func attach(_ waker: StreamWaker) {}
    // An array stream never waits.
    func clientStoppedSending() -> Bool { true }
    func cancelled() {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        let count = min(buffer.count, bytes.count - position)
        guard count > 0 else { return .end }
        buffer.copyBytes(from: bytes[position..<position + count])
        position += count
        return .bytes(count)
    }
}

extension Response {
    /// Tells a stream that it will not be read. A file closes itself when it is released.
    func discard() {
        if case .stream(let stream, _) = body { stream.cancelled() }
    }

    /// Returns the complete response as sent on the wire, with `Connection: close`. Only a body of bytes is
    /// included.
    func serialized(requestID: String) -> [UInt8] {
        let reason = MHD_get_reason_phrase_for(UInt32(status)).map { String(cString: $0) } ?? ""
        var content: [UInt8] = []
        if case .bytes(let bytes) = body { content = bytes }
        var text = "HTTP/1.1 \(status) \(reason)\r\n"
        for (name, value) in fields.pairs { text += "\(name): \(value)\r\n" }
        text += "X-Request-Id: \(requestID)\r\nContent-Length: \(content.count)\r\nConnection: close\r\n\r\n"
        return Array(text.utf8) + content
    }
}
