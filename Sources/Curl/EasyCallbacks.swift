import CCurl
import Glibc
import Sys

/// What libcurl holds while it works on a handle. It outlives every use of the handle, because the handle is
/// reset before the context goes.
final class EasyContext {
    /// nil once the transfer is cancelled or over: callbacks then end whatever still runs.
    var delegate: (any EasyDelegate)?
    /// The address that the delegate has refused, unless another one was tried for the same request.
    private(set) var blocked: SocketAddress?
    private var hasTriedAddress = false
    /// The socket that last waited to send; -1 before.
    var socket: curl_socket_t = -1
    /// Whether a body is sent, so that an answer may come before its end.
    fileprivate(set) var sendsBody = false
    fileprivate var codings = ContentCodings(asked: nil)
    /// Whether the transfer ends because of them.
    fileprivate(set) var hasUnaskedCoding = false
    /// `TransferOutcome.unread`.
    private(set) var unread: [UInt8] = []
    /// Whether the last connection that was closed over TLS ended without the other end's farewell. Only
    /// known after `awaitFarewell()`.
    private(set) var lacksFarewell = false
    private var awaitsFarewell = false
    var isReceivePaused = false
    var isSendPaused = false
    /// Of the connection that carried the last request; nil without TLS.
    private(set) var tls: TLSNames?
    /// `TransferInfo.connectedAt`.
    var connectedAt: Int64 = 0
    /// When the last socket was made: monotonic nanoseconds.
    fileprivate(set) var openedAt: Int64 = 0
    /// Why the last socket could not be made (errno(3)), which libcurl does not say; 0: it could.
    fileprivate(set) var socketError: Int32 = 0
    /// Whether a request was begun: until then libcurl 8 gives times of what has not happened.
    fileprivate(set) var hasBegunRequest = false
    /// Whether the last request has got the whole head of its response; interim responses (1xx) are none.
    private(set) var hasWholeHead = false
    private var isInterim = false
    private var raw: UnsafeMutableRawPointer?

    /// Static texts of the TLS library.
    struct TLSNames {
        let protocolVersion: UnsafePointer<CChar>
        let cipherSuite: UnsafePointer<CChar>
    }

    init(delegate: any EasyDelegate) { self.delegate = delegate }

    var pointer: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    /// libcurl goes on to the next address.
    fileprivate func refusesToConnect(to address: SocketAddress) {
        if !hasTriedAddress { blocked = address }
    }

    fileprivate func triesAddress() { (blocked, hasTriedAddress) = (nil, true) }

    fileprivate func refusesToSend(to address: SocketAddress) { blocked = address }

    /// A request goes out.
    fileprivate func requestBegins() {
        hasTriedAddress = false
        hasBegunRequest = true
        hasWholeHead = false
        // Of another socket, perhaps libcurl's own: its resolver wakes it up by a byte.
        unread = []
    }

    /// libcurl lets go of the socket, perhaps to close it. What it has not read by then it never will;
    /// looking leaves it where it is.
    func leaves(_ descriptor: curl_socket_t) {
        // What was sent over TLS has been read before, or cannot be.
        guard tls == nil else { return }
        unread = [UInt8](unsafeUninitializedCapacity: 16_384) { buffer, count in
            count = max(0, recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_PEEK | MSG_DONTWAIT)))
        }
    }

    /// The server has hung up while it was being sent a body over TLS: the last moment at which its answer
    /// can be read.
    fileprivate func cannotWrite() {
        guard let raw, unread.isEmpty else { return }
        unread = [UInt8](unsafeUninitializedCapacity: 16_384) { buffer, count in
            count = ccurl_read_rest(raw, buffer.baseAddress, buffer.count)
        }
    }

    /// One line of a head, without its end.
    fileprivate func noteHead(_ line: UnsafeRawBufferPointer) {
        if line.isEmpty {
            hasWholeHead = hasWholeHead || !isInterim
        } else if line.starts(with: "HTTP/".utf8) {
            // "HTTP/1.1 103": an interim response (RFC 9110 §15.2); 101 ends HTTP.
            let status = line.drop { $0 != 0x20 }.dropFirst()
            isInterim = status.first == UInt8(ascii: "1") && !status.starts(with: "101".utf8)
            hasWholeHead = false
        }
    }

    /// Lets the context ask about the handle that it serves.
    fileprivate func attach(to raw: UnsafeMutableRawPointer) { self.raw = raw }

    /// Only while libcurl calls back: at the end the connection is no longer the handle's.
    fileprivate func noteTLS() {
        var protocolVersion: UnsafePointer<CChar>?
        var cipherSuite: UnsafePointer<CChar>?
        guard let raw, ccurl_tls_names(raw, &protocolVersion, &cipherSuite) == 1,
            let protocolVersion, let cipherSuite
        else {
            tls = nil
            return
        }
        tls = TLSNames(protocolVersion: protocolVersion, cipherSuite: cipherSuite)
    }

    /// From now on libcurl says what it does.
    fileprivate func listens() {
        guard let raw else { return }
        ccurl_set_listener(raw, listen, pointer)
        ccurl_set_long(raw, CURLOPT_VERBOSE, 1)
    }

    /// From now on `lacksFarewell` counts.
    func awaitFarewell() {
        awaitsFarewell = true
        listens()
    }

    /// A connection is about to be closed; its TLS session is still there.
    fileprivate func closesConnection() {
        guard awaitsFarewell, let raw else { return }
        lacksFarewell = ccurl_has_farewell(raw) == 0
    }

    static func from(_ raw: UnsafeMutableRawPointer?) -> EasyContext? {
        raw.map { Unmanaged<EasyContext>.fromOpaque($0).takeUnretainedValue() }
    }
}

extension EasyHandle {
    /// Lets libcurl call `context`, which the caller keeps alive until `reset()`.
    func install(_ context: EasyContext, for request: TransferRequest) {
        context.attach(to: raw)
        context.sendsBody = request.body != .none
        context.codings = ContentCodings(asked: request.acceptEncoding)
        ccurl_set_receivers(raw, receiveHeader, receiveBody, context.pointer)
        ccurl_set_guards(raw, openSocket, requestIsReady, context.pointer)
        if context.sendsBody { ccurl_set_senders(raw, provideBody, seekBody, context.pointer) }
    }
}

// Nothing below may be @MainActor: these run on whichever thread drives the handle.

/// A return value that libcurl takes for a failure: any other count than the one it passed.
private func refusal(of count: Int) -> Int { count == 0 ? 1 : 0 }

private let receiveHeader: curl_write_callback = { bytes, size, count, raw in
    let length = size * count
    guard let context = EasyContext.from(raw), let delegate = context.delegate, let bytes else {
        return refusal(of: length)
    }
    // Without its end it is no line: the connection ended within. libcurl 8 takes a lone CR for a head's end.
    guard length > 0, bytes[length - 1] == 0x0A else { return length }
    var end = length - 1
    if end > 0, bytes[end - 1] == 0x0D { end -= 1 }
    let line = UnsafeRawBufferPointer(start: bytes, count: end)
    context.noteHead(line)
    if !context.codings.allow(line) {
        context.hasUnaskedCoding = true
        guard delegate.wantsWholeHead else { return refusal(of: length) }
    }
    let goesOn = delegate.receiveHeaderLine(line)
    // Nothing is undone before the first byte of the body.
    return goesOn && !(line.isEmpty && context.hasUnaskedCoding) ? length : refusal(of: length)
}

private let receiveBody: curl_write_callback = { bytes, size, count, raw in
    let length = size * count
    guard let context = EasyContext.from(raw), let delegate = context.delegate else {
        return refusal(of: length)
    }
    switch delegate.receiveBody(UnsafeRawBufferPointer(start: bytes, count: length)) {
    case .proceed:
        return length
    case .pause:
        context.isReceivePaused = true
        return Int(CURL_WRITEFUNC_PAUSE)
    case .abort:
        return refusal(of: length)
    }
}

private let provideBody: curl_read_callback = { bytes, size, count, raw in
    guard let context = EasyContext.from(raw), let delegate = context.delegate else {
        return Int(CURL_READFUNC_ABORT)
    }
    switch delegate.provideBody(into: UnsafeMutableRawBufferPointer(start: bytes, count: size * count)) {
    case .bytes(let provided):
        return provided
    case .pause:
        context.isSendPaused = true
        return Int(CURL_READFUNC_PAUSE)
    case .abort:
        return Int(CURL_READFUNC_ABORT)
    }
}

private let seekBody: curl_seek_callback = { raw, offset, origin in
    guard let delegate = EasyContext.from(raw)?.delegate else { return CURL_SEEKFUNC_FAIL }
    guard offset == 0, origin == SEEK_SET else { return CURL_SEEKFUNC_CANTSEEK }
    return delegate.rewindBody() ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL
}

private let openSocket: curl_opensocket_callback = { raw, _, address in
    let refused = curl_socket_t(-1)
    guard let context = EasyContext.from(raw), let delegate = context.delegate, let address,
        let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr)
    else { return refused }
    guard
        let target = SocketAddress(
            UnsafeRawPointer(address) + offset, length: Int(address.pointee.addrlen))
    else { return refused }
    guard delegate.willConnect(to: target) else {
        context.refusesToConnect(to: target)
        return refused
    }
    context.triesAddress()
    context.openedAt = monotonicNanoseconds()
    let kind = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
    let opened = socket(address.pointee.family, kind, address.pointee.protocol)
    context.socketError = opened < 0 ? errno : 0
    return opened
}

private let requestIsReady: curl_prereq_callback = { raw, remoteAddress, _, remotePort, _ in
    guard let context = EasyContext.from(raw), let delegate = context.delegate, let remoteAddress,
        let target = SocketAddress(remoteAddress, port: UInt16(truncatingIfNeeded: remotePort))
    else { return CURL_PREREQFUNC_ABORT }
    guard delegate.willSend(to: target) else {
        context.refusesToSend(to: target)
        return CURL_PREREQFUNC_ABORT
    }
    context.requestBegins()
    context.noteTLS()
    // Not before: libcurl would put all of the handshake into words.
    if context.sendsBody, context.tls != nil { context.listens() }
    return CURL_PREREQFUNC_OK
}

/// libcurl 7.88 has no other words for these, and tells them before it lets go of the TLS session.
private let listen: curl_debug_callback = { _, kind, bytes, count, raw in
    guard kind == CURLINFO_TEXT, let bytes, let context = EasyContext.from(raw) else { return 0 }
    let text = UnsafeRawBufferPointer(start: bytes, count: count)
    if context.sendsBody, text.starts(with: "OpenSSL SSL_write:".utf8) { context.cannotWrite() }
    if isClosing(text) { context.closesConnection() }
    return 0
}

/// `Closing connection 0`; libcurl 8 says it in another way.
private func isClosing(_ text: UnsafeRawBufferPointer) -> Bool {
    text.starts(with: "Closing connection".utf8) || text.starts(with: "closing connection".utf8)
        || text.starts(with: "shutting down connection".utf8)
}
