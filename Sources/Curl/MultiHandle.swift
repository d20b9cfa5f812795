import CCurl
import Sys

/// One multi handle of a loop, with its deadline.
///
/// A loop has several once it is crowded. libcurl (7.88) walks all connections to a host when a transfer to
/// that host begins, so thousands of slow transfers would slow down every other one beside them; with a
/// bounded number in each handle the walk stays short.
final class MultiHandle {
    /// Transfers that may live in one handle before another one is opened.
    static let transferCountMax = 512
    /// Nanoseconds that an additional handle stays without a transfer, for its connections to be used again.
    static let idleMax: Int64 = 60_000_000_000

    let raw: UnsafeMutableRawPointer
    unowned let loop: CurlMulti
    /// The number of transfers that have begun and not ended.
    var liveCount = 0
    /// When the last one ended, in monotonic nanoseconds.
    var idleSince: Int64 = 0
    /// Whether there may be messages to read.
    var hasNews = false
    /// When libcurl wants to be called, in monotonic nanoseconds; nil when it waits for sockets only.
    var deadline: Int64?

    init(of loop: CurlMulti, keptConnections: Int) throws(CurlError) {
        guard let raw = curl_multi_init() else { throw CurlError(CURLE_OUT_OF_MEMORY) }
        self.raw = raw
        self.loop = loop
        ccurl_multi_set_callbacks(
            raw, socketChanged, deadlineChanged, Unmanaged.passUnretained(self).toOpaque())
        // The default grows to four times the transfers; a smaller one than the live limit closes what the
        // next transfer needs. Limits of our own decide what may run, libcurl's would only hide a queue.
        ccurl_multi_set_long(raw, CURLMOPT_MAXCONNECTS, min(keptConnections, Self.transferCountMax))
        ccurl_multi_set_long(raw, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0)
        ccurl_multi_set_long(raw, CURLMOPT_MAX_HOST_CONNECTIONS, 0)
    }

    /// Every transfer has been removed before. The loop may be gone, and closed sockets leave its epoll by
    /// themselves.
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
