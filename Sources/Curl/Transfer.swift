import CCurl
import Glibc

/// A running transfer of a `CurlMulti`. Use it only on the thread of its loop.
///
/// All methods may be called within a delegate's callback; they then take effect when libcurl has returned.
/// After the end of the transfer they do nothing.
public final class Transfer {
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

    /// Ends the transfer without further callbacks and closes its socket. Calling it again does nothing.
    public func cancel() {
        guard context.delegate != nil else { return }
        context.delegate = nil
        multi?.enqueue(.remove(self))
    }

    /// Ends each pause: those that the delegate returned, and `pauseReceiving()`. Held bytes may reach the
    /// delegate before this returns.
    public func resume() {
        guard context.isReceivePaused || context.isSendPaused else { return }
        context.isReceivePaused = false
        context.isSendPaused = false
        multi?.enqueue(.applyPause(self))
    }

    /// Stops reading from the socket until `resume()`, so that TCP flow control slows down the server.
    public func pauseReceiving() {
        guard !context.isReceivePaused else { return }
        context.isReceivePaused = true
        multi?.enqueue(.applyPause(self))
    }

    /// `true` if receiving or sending is paused.
    public var isPaused: Bool { context.isReceivePaused || context.isSendPaused }

    /// Records in `TransferOutcome.lacksCloseNotify` if the connection ends without close_notify. For a
    /// response whose body ends only with its connection: over TLS, without close_notify, anybody may have
    /// ended it. libcurl 7.88 with OpenSSL 3.0 does not report that.
    public func requireCloseNotify() {
        guard context.delegate != nil else { return }
        context.requireCloseNotify()
    }

    /// Closes the connection after this transfer. For a response after which another program may read other
    /// bytes as the next one.
    public func forbidReuse() {
        guard context.delegate != nil else { return }
        context.forbidReuse()
    }

    /// `true` if the socket has received bytes that libcurl has not read yet.
    public var hasUnreadBytes: Bool {
        var byte: UInt8 = 0
        return recv(context.socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) == 1
    }

    /// Measurements so far.
    public var info: TransferInfo { easy.info(context) }

    func applyPause() {
        var mask = CURLPAUSE_CONT
        if context.isReceivePaused { mask |= CURLPAUSE_RECV }
        if context.isSendPaused { mask |= CURLPAUSE_SEND }
        curl_easy_pause(easy.raw, mask)
    }
}
