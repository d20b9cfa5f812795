import Glibc
import TestSupport
import Testing

@testable import Curl

/// Checks for a response while it sends the body, before libcurl can read the response.
private final class Lookout: EasyDelegate {
    let seen = Signal<Bool>()
    let ended = Signal<TransferOutcome>()
    private let wantsAnswer: Signal<Void>
    /// Waits for a reset by the server before it continues.
    var waitsForReset = false
    var transfer: Transfer?
    private var callCount = 0

    init(_ wantsAnswer: Signal<Void>) { self.wantsAnswer = wantsAnswer }

    func willConnect(to address: SocketAddress) -> Bool { true }
    func willSend(to address: SocketAddress) -> Bool { true }
    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool { true }
    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict { .proceed }
    func rewindBody() -> Bool { false }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        callCount += 1
        if callCount == 2 {
            seen.fire(transfer?.hasUnreadBytes ?? true)
            wantsAnswer.fire(())
            seen.fire(eventually { self.transfer?.hasUnreadBytes ?? false })
            if waitsForReset { seen.fire(eventually { self.isReset }) }
        }
        buffer.initializeMemory(as: UInt8.self, repeating: 0)
        return .bytes(buffer.count)
    }

    private var isReset: Bool {
        var socket = pollfd(fd: transfer?.context.socket ?? -1, events: 0, revents: 0)
        return poll(&socket, 1, 0) == 1 && socket.revents & Int16(POLLHUP | POLLERR) != 0
    }

    func finished(_ outcome: TransferOutcome) { ended.fire(outcome) }
}

@Suite struct UnreadBytesTests {
    @Test("an early response is noticed while a body is sent, and libcurl stops sending")
    func early() throws {
        let wantsAnswer = Signal<Void>()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            _ = wantsAnswer.wait(seconds: 60)
            connection.send("HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
            _ = connection.waitUntilClosed()
        }
        defer { origin.stop() }
        let loop = try CurlLoop(name: "test-curl", keptConnections: 16)
        defer { loop.stop() }
        var request = TransferRequest(url: origin.url)
        request.method = "PUT"
        request.body = .known(1 << 30)
        request.expectsContinue = false
        request.sendBufferSize = 65_536
        let begun = Signal<(seen: Signal<Bool>, ended: Signal<TransferOutcome>)>()
        loop.perform { [request] multi in
            let lookout = Lookout(wantsAnswer)
            lookout.transfer = try? multi.start(request, delegate: lookout)
            begun.fire((lookout.seen, lookout.ended))
        }
        let signals = try #require(begun.wait(seconds: 60).first)
        #expect(signals.seen.wait(for: 2, seconds: 60) == [false, true])
        let outcome = try #require(signals.ended.wait(seconds: 60).first)
        #expect(outcome.error == nil && outcome.info.status == 413)
        #expect(outcome.info.bodyBytesSent < 1 << 30)
    }

    @Test("an early response is passed on if the server then closes the connection")
    func lost() throws {
        let wantsAnswer = Signal<Void>()
        let answer = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n"
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            _ = wantsAnswer.wait(seconds: 60)
            connection.send(answer)
            connection.reset()
        }
        defer { origin.stop() }
        let loop = try CurlLoop(name: "test-curl", keptConnections: 16)
        defer { loop.stop() }
        var request = TransferRequest(url: origin.url)
        request.method = "PUT"
        request.body = .known(1 << 30)
        request.expectsContinue = false
        request.sendBufferSize = 65_536
        let begun = Signal<(seen: Signal<Bool>, ended: Signal<TransferOutcome>)>()
        loop.perform { [request] multi in
            let lookout = Lookout(wantsAnswer)
            lookout.waitsForReset = true
            lookout.transfer = try? multi.start(request, delegate: lookout)
            begun.fire((lookout.seen, lookout.ended))
        }
        let signals = try #require(begun.wait(seconds: 60).first)
        #expect(signals.seen.wait(for: 3, seconds: 60) == [false, true, true])
        let outcome = try #require(signals.ended.wait(seconds: 60).first)
        #expect(outcome.error != nil, "libcurl has read it")
        #expect(String(decoding: outcome.unread, as: UTF8.self) == answer)
    }
}
