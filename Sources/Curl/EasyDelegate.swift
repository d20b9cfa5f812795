/// Result of `EasyDelegate.receiveBody`.
public enum BodyVerdict: Sendable {
    case proceed
    /// Rejects the bytes for now: libcurl offers them again after `Transfer.resume()`.
    case pause
    /// Ends the transfer with `CurlError.writeError`.
    case abort
}

/// Result of `EasyDelegate.provideBody`.
public enum BodyProvision: Sendable {
    /// Number of bytes written to the buffer; 0 is the end of the body.
    case bytes(Int)
    /// No bytes are available: libcurl asks again after `Transfer.resume()`.
    case pause
    /// Ends the transfer with `CurlError.abortedByCallback`.
    case abort
}

/// Callbacks of one transfer, all on the thread that drives it. None follows `Transfer.cancel()` or
/// `finished`. They must not block. Pointers are valid only during the call.
public protocol EasyDelegate: AnyObject {
    /// The name of the host that is connected directly, or of the proxy, has just been resolved. Not called
    /// for names that libcurl has in its cache.
    func nameResolved()
    /// Returns `false` to refuse an address. Called for each address before libcurl connects to it, after
    /// name resolution; libcurl then tries the next address (CURLOPT_OPENSOCKETFUNCTION).
    func willConnect(to address: SocketAddress) -> Bool
    /// Returns `false` to end the transfer. Called before the first byte of each request, also on kept
    /// connections (CURLOPT_PREREQFUNCTION).
    func willSend(to address: SocketAddress) -> Bool
    /// Receives one line of a response head without its line end; an empty line ends the head. Heads of
    /// interim responses (1xx) and trailers are passed as well. Returns `false` to end the transfer with
    /// `CurlError.writeError`.
    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool
    /// When a transfer with a coding that was not requested ends (`CurlError.unrequestedCoding`): `false` at
    /// the line that names it, `true` at the end of the head, which is received first.
    var completesHead: Bool { get }
    /// Receives up to 16 KiB of the body, decoded if the request asked for a content coding.
    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict
    /// Writes the next bytes of the request body to `buffer`.
    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision
    /// Returns to the beginning of the request body, because it has to be sent again: a kept connection was
    /// closed, or authentication requires it. Returns `false` to end the transfer with
    /// `CurlError.sendFailedRewind`.
    func rewindBody() -> Bool
    /// The transfer has ended; its socket is closed or kept for later transfers. The last call.
    func finished(_ outcome: TransferOutcome)
}

extension EasyDelegate {
    /// Does nothing.
    public func nameResolved() {}
    /// Allows all addresses.
    public func willConnect(to address: SocketAddress) -> Bool { true }
    /// Allows all addresses.
    public func willSend(to address: SocketAddress) -> Bool { true }
    /// Ignores the line.
    public func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool { true }
    /// Ends the transfer at the line that names the coding.
    public var completesHead: Bool { false }
    /// Ends the body.
    public func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision { .bytes(0) }
    /// Refuses, as a body that cannot be sent again.
    public func rewindBody() -> Bool { false }
}
