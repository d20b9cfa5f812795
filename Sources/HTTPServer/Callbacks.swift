internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

// Callbacks of libmicrohttpd, all on the thread of the connection. File-level functions, so that the compiler
// infers no isolation for them. `context` is the `ServerCore`; the daemon keeps it alive.

private func peer(of connection: OpaquePointer) -> Peer? {
    cmhd_connection_info(connection, .CONNECTION_INFO_SOCKET_CONTEXT)?.pointee.socket_context
        .map { Unmanaged<Peer>.fromOpaque($0).takeUnretainedValue() }
}

/// Called when the request line is complete: only now the target is available as sent. The returned object is
/// the context of the request, owned by libmicrohttpd until it calls `requestEnded`, which it always does.
func requestBegan(
    _ context: UnsafeMutableRawPointer?, _ target: UnsafePointer<CChar>?, _ connection: OpaquePointer?
) -> UnsafeMutableRawPointer? {
    guard let context, let connection, let peer = peer(of: connection) else { return nil }
    let core = Unmanaged<ServerCore>.fromOpaque(context).takeUnretainedValue()
    let exchange = RequestExchange(core: core, peer: peer, target: target)
    return Unmanaged.passRetained(exchange).toOpaque()
}

/// Called after the header fields, then for each piece of the body, then without bytes at the end, and again
/// after each suspension.
func requestContinues(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ bytes: UnsafePointer<CChar>?,
    _ count: UnsafeMutablePointer<Int>?, _ slot: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    guard let raw = slot?.pointee, let connection, let url, let method, let version, let count else {
        return .NO
    }
    let exchange = Unmanaged<RequestExchange>.fromOpaque(raw).takeUnretainedValue()
    if !exchange.isOpen { return exchange.open(connection, method: method, target: url, version: version) }
    guard count.pointee > 0 else { return exchange.finish(connection) }
    let piece = UnsafeRawBufferPointer(start: bytes, count: count.pointee)
    guard let left = exchange.receive(piece, connection) else { return .NO }
    count.pointee = left
    return .YES
}

func requestEnded(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ slot: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ reason: MHD_RequestTerminationCode
) {
    guard let slot, let raw = slot.pointee else { return }
    slot.pointee = nil
    Unmanaged<RequestExchange>.fromOpaque(raw).takeRetainedValue().end()
}

func connectionChanged(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ slot: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ change: MHD_ConnectionNotificationCode
) {
    guard let context, let connection, let slot else { return }
    let core = Unmanaged<ServerCore>.fromOpaque(context).takeUnretainedValue()
    switch change {
    case .CONNECTION_NOTIFY_STARTED:
        let descriptor = cmhd_connection_info(connection, .CONNECTION_INFO_CONNECTION_FD)?.pointee.connect_fd
        let address = cmhd_connection_info(connection, .CONNECTION_INFO_CLIENT_ADDRESS)?.pointee.client_addr
        let peer = Peer(descriptor: descriptor ?? -1, address: address.map { UnsafePointer($0) })
        peer.slot = core.peers.withLock { $0.insert(peer) }
        slot.pointee = Unmanaged.passRetained(peer).toOpaque()
    case .CONNECTION_NOTIFY_CLOSED:
        guard let raw = slot.pointee else { return }
        slot.pointee = nil
        let peer = Unmanaged<Peer>.fromOpaque(raw).takeRetainedValue()
        peer.close()
        core.peers.withLock { $0.remove(peer.slot) }
    @unknown default: break
    }
}

/// Keeps percent-escapes: the target is decoded segment by segment after routing.
func keepEscapes(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ text: UnsafeMutablePointer<CChar>?
) -> Int {
    text.map { strlen($0) } ?? 0
}

func libraryLogged(
    _ context: UnsafeMutableRawPointer?, _ format: UnsafePointer<CChar>?, _ arguments: CVaListPointer?
) {
    guard let context, let format, let arguments else { return }
    let core = Unmanaged<ServerCore>.fromOpaque(context).takeUnretainedValue()
    let line = String(unsafeUninitializedCapacity: 512) { buffer in
        buffer.withMemoryRebound(to: CChar.self) { text in
            min(max(Int(vsnprintf(text.baseAddress, text.count, format, arguments)), 0), text.count - 1)
        }
    }
    core.log(line.last == "\n" ? String(line.dropLast()) : line)
}
