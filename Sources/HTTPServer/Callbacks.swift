internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

// What libmicrohttpd calls: file-level functions, so that no isolation is inferred for them.

private func peer(of connection: OpaquePointer) -> Peer? {
    cmhd_connection_info(connection, .CONNECTION_INFO_SOCKET_CONTEXT)?.pointee.socket_context
        .map { Unmanaged<Peer>.fromOpaque($0).takeUnretainedValue() }
}

/// The request line is in: the only moment at which the target can be seen as it was sent. What is returned
/// becomes the request's slot, and `requestEnded` is called for it in every case.
func requestBegan(
    _ context: UnsafeMutableRawPointer?, _ target: UnsafePointer<CChar>?, _ connection: OpaquePointer?
) -> UnsafeMutableRawPointer? {
    guard let context, let connection, let peer = peer(of: connection) else { return nil }
    let core = Unmanaged<ServerCore>.fromOpaque(context).takeUnretainedValue()
    let exchange = RequestExchange(core: core, peer: peer, target: target)
    return Unmanaged.passRetained(exchange).toOpaque()
}

/// First with the headers, then with each piece of the body, then with nothing, and again after each rest.
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

/// Leaves escapes as they are: the target is decoded after routing, segment by segment.
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
