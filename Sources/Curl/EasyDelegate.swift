/// What a delegate answers to bytes that arrived.
package enum BodyVerdict: Sendable {
    case proceed
    /// Keeps these bytes: the same ones come again after `Transfer.resume()`.
    case pause
    /// Ends the transfer with `CurlError.writeError`.
    case abort
}

/// What a delegate answers when bytes to send are asked for.
package enum BodyProvision: Sendable {
    /// How many bytes were written into the buffer; 0 is the end of the body.
    case bytes(Int)
    /// Nothing there yet: asked again after `Transfer.resume()`.
    case pause
    /// Ends the transfer with `CurlError.abortedByCallback`.
    case abort
}

/// What libcurl says about one transfer. Everything is called on the thread that drives the transfer, never
/// after `Transfer.cancel()`, and nothing after `finished`. Calls must not block. Pointers are valid during
/// the call.
package protocol EasyDelegate: AnyObject {
    /// Asked about every address that is about to be connected, after name resolution. False refuses it;
    /// libcurl then tries the next one (CURLOPT_OPENSOCKETFUNCTION).
    func willConnect(to address: SocketAddress) -> Bool
    /// Asked before the first byte of the request, on kept connections too (CURLOPT_PREREQFUNCTION).
    func willSend(to address: SocketAddress) -> Bool
    /// One line of an answer's head without its line end; empty at the head's end. Interim answers (1xx) and
    /// trailers come this way as well. False ends the transfer with `CurlError.writeError`.
    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool
    /// A line that names a coding that was not asked for ends the transfer with `CurlError.unaskedCoding`
    /// instead of being received; true: the end of its head does, which comes first.
    var wantsWholeHead: Bool { get }
    /// At most 16 KiB of the body, decoded when the request asked for an encoding.
    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict
    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision
    /// The body has to be sent once more from its beginning (a kept connection was dead, or authentication
    /// asked for it). False ends the transfer with `CurlError.sendFailedRewind`.
    func rewindBody() -> Bool
    /// The transfer is over; its socket is closed or back in the pool.
    func finished(_ outcome: TransferOutcome)
}

extension EasyDelegate {
    package func willConnect(to address: SocketAddress) -> Bool { true }
    package func willSend(to address: SocketAddress) -> Bool { true }
    package func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool { true }
    package var wantsWholeHead: Bool { false }
    package func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision { .bytes(0) }
    package func rewindBody() -> Bool { false }
}
