import CCurl
import Glibc

/// One transfer in the hands of a `CurlMulti`. Belongs to the loop's thread, like everything it calls.
///
/// Every command may be given from inside a delegate's call as well; it then takes effect as soon as libcurl
/// has returned. After the end all commands do nothing.
package final class Transfer {
    let easy: EasyHandle
    let context: EasyContext
    let handle: MultiHandle
    private weak var multi: CurlMulti?

    init(easy: EasyHandle, context: EasyContext, multi: CurlMulti, handle: MultiHandle) {
        self.easy = easy
        self.context = context
        self.multi = multi
        self.handle = handle
    }

    /// Ends the transfer without another word to the delegate and closes its socket. Twice is once.
    package func cancel() {
        guard context.delegate != nil else { return }
        context.delegate = nil
        multi?.enqueue(.remove(self))
    }

    /// Takes back every `.pause` that the delegate answered, and `pauseReceiving()`. Bytes that were held may
    /// reach the delegate before this returns.
    package func resume() {
        guard context.isReceivePaused || context.isSendPaused else { return }
        context.isReceivePaused = false
        context.isSendPaused = false
        multi?.enqueue(.applyPause(self))
    }

    /// Stops reading from the socket, so that the other end feels it. Until `resume()`.
    package func pauseReceiving() {
        guard !context.isReceivePaused else { return }
        context.isReceivePaused = true
        multi?.enqueue(.applyPause(self))
    }

    /// Whether bytes are being kept from the delegate or from the wire.
    package var isPaused: Bool { context.isReceivePaused || context.isSendPaused }

    /// Nothing but the end of its connection ends the body that comes: over TLS, who closes it without a
    /// farewell (close_notify) may be anybody, and `TransferOutcome.lacksFarewell` says so. libcurl 7.88 with
    /// OpenSSL 3.0 takes any end for a good one.
    package func awaitFarewell() {
        guard context.delegate != nil else { return }
        context.awaitFarewell()
    }

    /// Whether something has come from the other end that libcurl has not read yet.
    package var hasUnreadBytes: Bool {
        var byte: UInt8 = 0
        return recv(context.socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) == 1
    }

    /// Bytes a second from now on; 0 is no limit.
    package func limitSpeed(receiving: Int64, sending: Int64) {
        guard context.delegate != nil else { return }
        ccurl_set_offset(easy.raw, CURLOPT_MAX_RECV_SPEED_LARGE, curl_off_t(receiving))
        ccurl_set_offset(easy.raw, CURLOPT_MAX_SEND_SPEED_LARGE, curl_off_t(sending))
    }

    /// What has been measured so far.
    package var info: TransferInfo { easy.info(context) }

    func applyPause() {
        var mask = CURLPAUSE_CONT
        if context.isReceivePaused { mask |= CURLPAUSE_RECV }
        if context.isSendPaused { mask |= CURLPAUSE_SEND }
        curl_easy_pause(easy.raw, mask)
    }
}
