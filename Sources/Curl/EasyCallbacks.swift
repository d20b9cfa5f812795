import CCurl
import Glibc
import Sys

/// State that libcurl's callbacks use. The caller keeps it alive until the handle is reset or removed;
/// libcurl has an unretained pointer. Used only on the thread that drives the transfer.
final class EasyContext {
    /// `nil` after the transfer was cancelled or has ended: callbacks then return an error.
    var delegate: (any EasyDelegate)?
    /// The address that the delegate refused, unless another address was tried for the same request.
    private(set) var blocked: SocketAddress?
    private var hasTriedAddress = false
    /// `true` from the start of a lookup until the first address that it has found.
    fileprivate var isResolving = false
    /// The socket that last waited to send; −1 before.
    var socket: curl_socket_t = -1
    /// `true` if the request has a body, so that a response may arrive before its end.
    fileprivate(set) var sendsBody = false
    fileprivate var codings = ContentCodings(asked: nil)
    /// `true` if the transfer ends because of a coding that was not requested.
    fileprivate(set) var hasUnaskedCoding = false
    /// See `TransferOutcome.unread`.
    private(set) var unread: [UInt8] = []
    /// `true` if the TLS connection that was closed last ended without close_notify. Known only after
    /// `requireCloseNotify()`.
    private(set) var lacksCloseNotify = false
    private var requiresCloseNotify = false
    var isReceivePaused = false
    var isSendPaused = false
    /// TLS of the connection that carried the last request; `nil` without TLS.
    private(set) var tls: TLSNames?
    /// See `TransferInfo.connectedAt`.
    var connectedAt: Int64 = 0
    /// When the last socket was created, in monotonic nanoseconds.
    fileprivate(set) var openedAt: Int64 = 0
    /// errno of the last socket(2), which libcurl does not report; 0 if it succeeded.
    fileprivate(set) var socketError: Int32 = 0
    /// `true` after a request was begun. Before that, libcurl 8 reports times of steps that have not
    /// happened.
    fileprivate(set) var hasBegunRequest = false
    /// `true` if the last request has received the complete head of its final response.
    private(set) var hasWholeHead = false
    private var isInterim = false
    /// `true` if libcurl ignores `Content-Length` in the current head, because chunks win over it.
    private var ignoresLength = false
    private var raw: UnsafeMutableRawPointer?

    /// Static strings of the TLS library.
    struct TLSNames {
        let protocolVersion: UnsafePointer<CChar>
        let cipherSuite: UnsafePointer<CChar>
    }

    init(delegate: any EasyDelegate) { self.delegate = delegate }

    var pointer: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    /// Called when the delegate refuses an address; libcurl then tries the next one.
    fileprivate func refusedToConnect(to address: SocketAddress) {
        if !hasTriedAddress { blocked = address }
    }

    fileprivate func willTryAddress() { (blocked, hasTriedAddress) = (nil, true) }

    fileprivate func refusedToSend(to address: SocketAddress) { blocked = address }

    /// Called when a request is about to be sent.
    fileprivate func requestWillBegin() {
        hasTriedAddress = false
        hasBegunRequest = true
        hasWholeHead = false
        // These bytes came from another socket, perhaps libcurl's own: its resolver thread sends a byte to
        // wake it.
        unread = []
    }

    /// Called when libcurl stops using a socket, perhaps to close it. libcurl will not read the bytes that
    /// the socket has received. MSG_PEEK leaves them there.
    func released(_ descriptor: curl_socket_t) {
        // Bytes sent over TLS have been decrypted by now, or cannot be.
        guard tls == nil else { return }
        unread = [UInt8](unsafeUninitializedCapacity: 16_384) { buffer, count in
            count = max(0, recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_PEEK | MSG_DONTWAIT)))
        }
    }

    /// Called when the server has closed the TLS connection while a body was being sent to it. Its response
    /// can only be read now.
    fileprivate func writeFailed() {
        guard let raw, unread.isEmpty else { return }
        unread = [UInt8](unsafeUninitializedCapacity: 16_384) { buffer, count in
            count = ccurl_read_rest(raw, buffer.baseAddress, buffer.count)
        }
    }

    /// Processes one line of a head, without its line end.
    fileprivate func processHead(_ line: UnsafeRawBufferPointer) {
        if line.isEmpty {
            hasWholeHead = hasWholeHead || !isInterim
        } else if line.starts(with: "HTTP/".utf8) {
            // "HTTP/1.1 1xx" is an interim response (RFC 9110 §15.2), except for 101, which ends HTTP.
            let status = line.drop { $0 != 0x20 }.dropFirst()
            isInterim = status.first == UInt8(ascii: "1") && !status.starts(with: "101".utf8)
            hasWholeHead = false
            if ignoresLength { ignoreLength(false) }
        } else if !ignoresLength, !hasWholeHead, Self.isChunked(line) {
            ignoreLength(true)
        }
    }

    /// Makes libcurl ignore `Content-Length` from the next line on: chunks win over all lengths (RFC 9112
    /// §6.3), and libcurl would reject one that is no number.
    private func ignoreLength(_ ignores: Bool) {
        guard let raw else { return }
        ignoresLength = ignores
        ccurl_set_long(raw, CURLOPT_IGNORE_CONTENT_LENGTH, ignores ? 1 : 0)
    }

    /// Returns `true` for a `Transfer-Encoding` whose last coding is `chunked`.
    private static func isChunked(_ line: UnsafeRawBufferPointer) -> Bool {
        let name = "transfer-encoding:"
        guard line.count > name.utf8.count, line[0] | 0x20 == UInt8(ascii: "t") else { return false }
        let text = String(decoding: line, as: UTF8.self).lowercased()
        guard text.hasPrefix(name) else { return false }
        let last = text.dropFirst(name.count).split(separator: ",").last ?? ""
        return last.drop { $0 == " " || $0 == "\t" }.prefix { $0 != " " && $0 != "\t" } == "chunked"
    }

    /// Sets the handle that this context serves. Does not own it.
    fileprivate func attach(to raw: UnsafeMutableRawPointer) { self.raw = raw }

    /// Reads version and cipher suite. Call only within a callback: after the transfer the handle has no
    /// connection.
    fileprivate func readTLS() {
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

    /// Enables libcurl's debug messages, which `listen` receives.
    fileprivate func enableMessages() {
        guard let raw else { return }
        ccurl_set_listener(raw, receiveMessage, pointer)
        ccurl_set_long(raw, CURLOPT_VERBOSE, 1)
    }

    /// Enables `lacksCloseNotify`.
    func requireCloseNotify() {
        requiresCloseNotify = true
        enableMessages()
    }

    func forbidReuse() {
        guard let raw else { return }
        ccurl_set_long(raw, CURLOPT_FORBID_REUSE, 1)
    }

    /// Called when a connection is about to be closed; its TLS session still exists.
    fileprivate func connectionCloses() {
        guard requiresCloseNotify, let raw else { return }
        lacksCloseNotify = ccurl_has_close_notify(raw) == 0
    }

    static func from(_ raw: UnsafeMutableRawPointer?) -> EasyContext? {
        raw.map { Unmanaged<EasyContext>.fromOpaque($0).takeUnretainedValue() }
    }
}

extension EasyHandle {
    /// Sets `context` as the argument of all callbacks. The caller keeps it alive until `reset()`.
    func install(_ context: EasyContext, for request: TransferRequest) {
        context.attach(to: raw)
        context.sendsBody = request.body != .none
        context.codings = ContentCodings(asked: request.acceptEncoding)
        ccurl_set_receivers(raw, receiveHeader, receiveBody, context.pointer)
        ccurl_set_guards(raw, openSocket, requestIsReady, context.pointer)
        ccurl_set_resolver_listener(raw, startResolving, context.pointer)
        if context.sendsBody { ccurl_set_senders(raw, provideBody, seekBody, context.pointer) }
    }
}

// The following functions must not be @MainActor: they run on the thread that drives the handle.

/// Returns a value that libcurl treats as a failure: any other count than the one it passed.
private func refusal(of count: Int) -> Int { count == 0 ? 1 : 0 }

private let receiveHeader: curl_write_callback = { bytes, size, count, raw in
    let length = size * count
    guard let context = EasyContext.from(raw), let delegate = context.delegate, let bytes else {
        return refusal(of: length)
    }
    // Without a line end the connection ended within the line. libcurl 8 takes a lone CR for the end of a
    // head.
    guard length > 0, bytes[length - 1] == 0x0A else { return length }
    var end = length - 1
    if end > 0, bytes[end - 1] == 0x0D { end -= 1 }
    let line = UnsafeRawBufferPointer(start: bytes, count: end)
    context.processHead(line)
    if !context.codings.allow(line) {
        context.hasUnaskedCoding = true
        guard delegate.completesHead else { return refusal(of: length) }
    }
    let proceeds = delegate.receiveHeaderLine(line)
    // libcurl decodes nothing before the first byte of the body.
    return proceeds && !(line.isEmpty && context.hasUnaskedCoding) ? length : refusal(of: length)
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

private let startResolving: curl_resolver_start_callback = { _, _, raw in
    EasyContext.from(raw)?.isResolving = true
    return 0
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
    if context.isResolving {
        context.isResolving = false
        delegate.nameResolved()
    }
    guard delegate.willConnect(to: target) else {
        context.refusedToConnect(to: target)
        return refused
    }
    context.willTryAddress()
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
        context.refusedToSend(to: target)
        return CURL_PREREQFUNC_ABORT
    }
    context.requestWillBegin()
    context.readTLS()
    // Not earlier: libcurl would write a message for each step of the handshake.
    if context.sendsBody, context.tls != nil { context.enableMessages() }
    return CURL_PREREQFUNC_OK
}

/// Receives libcurl's debug messages. libcurl 7.88 reports these two events in no other way, and reports them
/// before it releases the TLS session.
private let receiveMessage: curl_debug_callback = { _, kind, bytes, count, raw in
    guard kind == CURLINFO_TEXT, let bytes, let context = EasyContext.from(raw) else { return 0 }
    let text = UnsafeRawBufferPointer(start: bytes, count: count)
    if context.sendsBody, text.starts(with: "OpenSSL SSL_write:".utf8) { context.writeFailed() }
    if isClosing(text) { context.connectionCloses() }
    return 0
}

/// Returns `true` for `Closing connection 0` of libcurl 7.88, and for the texts of libcurl 8.
private func isClosing(_ text: UnsafeRawBufferPointer) -> Bool {
    text.starts(with: "Closing connection".utf8) || text.starts(with: "closing connection".utf8)
        || text.starts(with: "shutting down connection".utf8)
}
