import CCurl
import Sys

/// Owns a multi handle of a loop, with its deadline.
///
/// A loop with many transfers has several. When a transfer begins, libcurl 7.88 walks all connections to its
/// host, so thousands of slow transfers would slow down all others. A limit on the transfers of a handle
/// keeps that walk short.
final class MultiHandle {
    /// Transfers of one handle before the loop opens another one.
    static let transferCountMax = 512
    /// Nanoseconds for which an additional handle is kept without transfers, so that its connections can be
    /// reused.
    static let idleMax: Int64 = 60_000_000_000

    let raw: UnsafeMutableRawPointer
    unowned let loop: CurlMulti
    /// Number of transfers that have started and not ended.
    var liveCount = 0
    /// When the last transfer ended, in monotonic nanoseconds.
    var idleSince: Int64 = 0
    /// `true` if curl_multi_info_read(3) may return messages.
    var hasMessages = false
    /// When libcurl wants to be called, in monotonic nanoseconds; `nil` if it waits only for sockets.
    var deadline: Int64?

    init(of loop: CurlMulti, keptConnections: Int) throws(CurlError) {
        guard let raw = curl_multi_init() else { throw CurlError(CURLE_OUT_OF_MEMORY) }
        self.raw = raw
        self.loop = loop
        ccurl_multi_set_callbacks(
            raw, socketChanged, deadlineChanged, Unmanaged.passUnretained(self).toOpaque())
        // libcurl's default is four times the transfers; a limit below their number closes connections that
        // the next transfer needs. Other code limits how many transfers run, so libcurl must not queue any.
        ccurl_multi_set_long(raw, CURLMOPT_MAXCONNECTS, min(keptConnections, Self.transferCountMax))
        ccurl_multi_set_long(raw, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0)
        ccurl_multi_set_long(raw, CURLMOPT_MAX_HOST_CONNECTIONS, 0)
    }

    /// All transfers have been removed before. The loop may have been released already; closed sockets leave
    /// its epoll set by themselves.
    deinit {
        ccurl_multi_set_callbacks(raw, nil, nil, nil)
        curl_multi_cleanup(raw)
    }

    fileprivate func setDeadline(_ milliseconds: Int) {
        deadline = milliseconds < 0 ? nil : monotonicNanoseconds() + Int64(milliseconds) * 1_000_000
    }
}

private let socketChanged: curl_socket_callback = { easy, descriptor, what, raw, _ in
    guard let raw else { return 0 }
    let handle = Unmanaged<MultiHandle>.fromOpaque(raw).takeUnretainedValue()
    handle.loop.watch(easy, descriptor, what, for: handle)
    return 0
}

private let deadlineChanged: curl_multi_timer_callback = { _, milliseconds, raw in
    guard let raw else { return 0 }
    Unmanaged<MultiHandle>.fromOpaque(raw).takeUnretainedValue().setDeadline(milliseconds)
    return 0
}
