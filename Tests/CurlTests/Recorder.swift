import Curl
import Synchronization
import TestSupport

/// A delegate that records its calls, and sends and receives as its script says.
final class Recorder: EasyDelegate {
    struct Script: Sendable {
        var upload: [UInt8] = []
        var pausesAt: Int?
        var refusesConnect = false
        var refusesSend = false
    }

    let ended = Signal<TransferOutcome>()
    let paused = Signal<Void>()
    let firstByte = Signal<Void>()
    private let script: Script
    private(set) var received: [UInt8] = []
    private(set) var headerLines: [String] = []
    private(set) var rewinds = 0
    private var sent = 0
    private var hasPaused = false

    init(_ script: Script = Script()) { self.script = script }

    func willConnect(to address: SocketAddress) -> Bool { !script.refusesConnect }
    func willSend(to address: SocketAddress) -> Bool { !script.refusesSend }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        headerLines.append(String(decoding: line, as: UTF8.self))
        return true
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        if let place = script.pausesAt, !hasPaused, received.count + bytes.count > place {
            hasPaused = true
            paused.fire(())
            return .pause
        }
        if received.isEmpty { firstByte.fire(()) }
        received.append(contentsOf: bytes)
        return .proceed
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        let rest = script.upload[sent...].prefix(buffer.count)
        buffer.copyBytes(from: rest)
        sent += rest.count
        return .bytes(rest.count)
    }

    func rewindBody() -> Bool {
        rewinds += 1
        sent = 0
        return true
    }

    func finished(_ outcome: TransferOutcome) { ended.fire(outcome) }
}

/// A recorder and its transfer on a loop. Read the recorder only after the transfer has ended.
final class Running: @unchecked Sendable {
    let recorder: Recorder
    private let loop: CurlLoop
    private let transfer: LoopBound<Result<Transfer, CurlError>>

    init(_ loop: CurlLoop, _ request: TransferRequest, _ script: Recorder.Script = .init()) {
        self.loop = loop
        let recorder = Handed(Recorder(script))
        self.recorder = recorder.value
        transfer = LoopBound(on: loop) { multi in
            do throws(CurlError) {
                return .success(try multi.start(request, delegate: recorder.value))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Returns how the transfer ended, or `nil` if it did not end in time.
    func outcome() -> TransferOutcome? { recorder.ended.wait().first }

    func command(_ body: @escaping @Sendable (Transfer) -> Void) {
        loop.perform { [transfer] multi in
            if case .success(let transfer) = transfer.get(multi) { body(transfer) }
        }
    }

    func startError() -> CurlError? {
        let answer = Signal<CurlError?>()
        loop.perform { [transfer] multi in
            if case .failure(let error) = transfer.get(multi) { answer.fire(error) } else { answer.fire(nil) }
        }
        return answer.wait().first ?? nil
    }
}

private final class Handed<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
