import FerryCore
import FerryEngine
import Testing

@Suite struct AttemptMachineTests {
    private static let question = JobQuestion(.begin, askedAt: Timestamp(microseconds: 0), timeout: 1)
    private static let error = TransferError(.connectionLost, "x", phase: .waiting, isRetryable: true)
    private static let result = TransferResult(
        size: 1, sha256: "", verified: .length)
    private static let events: [AttemptMachine.Event] = [
        .onlyChecks, .prepared, .preparationFailed(error), .head(.accept), .head(.redirect(isDelayed: false)),
        .head(.redirect(isDelayed: true)), .head(.again),
        .head(.wait), .interrupted, .head(.refuse(error, retryAfter: 3)),
        .head(.refuseKeepingBody(error, retryAfter: 3)),
        .head(.ask(question)), .enoughDiscarded,
        .bodyRefused(error),
        .transferEnded(nil),
        .transferEnded(.init(error, mayRepeatAtOnce: true)),
        .transferEnded(.init(error, mayRepeatAtOnce: false)),
        .timedOut(error), .stored(result), .published, .storageFailed(error), .fetchAgain, .revoked,
        .stop(.cancel), .stop(.cancelKeepingBytes), .stop(.suspend), .release, .placeLost(error),
        .putOff(HostHold(origin: "http://a:80", reason: .hostPaused)),
    ]

    private static let endings = [
        "succeeded", "failed", "cancelled", "released", "suspended", "asked", "left", "put off",
    ]

    private static func words(_ actions: [AttemptMachine.Action]) -> [String] {
        actions.map { action in
            switch action {
            case .start(let fresh): fresh ? "start fresh" : "start"
            case .stopTransfer: "stop"
            case .follow: "follow"
            case .store: "store"
            case .revokeStorage: "revoke"
            case .change: "change"
            case .startLater: "start later"
            case .endPreparation: "end preparation"
            case .discardBytes: "discard"
            case .keepBytes: "keep"
            case .report(.succeeded): "succeeded"
            case .report(.failed): "failed"
            case .report(.cancelled): "cancelled"
            case .report(.released): "released"
            case .leave: "left"
            case .report(.suspended): "suspended"
            case .report(.asked): "asked"
            case .report(.putOff): "put off"
            }
        }
    }

    private static func run(_ events: [AttemptMachine.Event]) -> [String] {
        var machine = AttemptMachine()
        return events.flatMap { words(machine.handle($0)) }
    }

    @Test("request, head, body and publication lead to success")
    func good() {
        #expect(
            Self.run([.prepared, .head(.accept), .transferEnded(nil), .stored(Self.result)])
                == ["start", "store", "succeeded"])
    }

    @Test("after a file thread has reported the result, no later event reports again")
    func published() {
        #expect(
            Self.run([.prepared, .head(.accept), .transferEnded(nil), .published, .stop(.cancel), .release])
                == ["start", "store", "left"])
    }

    @Test(
        "five events in any order end in at most one report, and every failure keeps or discards its bytes"
    )
    func exhaustive() {
        var visited = 0
        func visit(_ machine: AttemptMachine, _ reports: Int, _ depth: Int) {
            visited += 1
            #expect(machine.isEnded == (reports == 1))
            guard depth > 0 else { return }
            for event in Self.events {
                var next = machine
                let words = Self.words(next.handle(event))
                let count = words.count { Self.endings.contains($0) }
                if reports + count > 1
                    || count == 1 && words.last.map({ $0 == "start" || $0 == "store" }) == true
                    || machine.isEnded && !words.isEmpty
                    || count == 1 && !["succeeded", "left"].contains(words.last)
                        && !words.contains("discard") && !words.contains("keep")
                {
                    Issue.record("\(event) in \(machine): \(words)")
                }
                if next.isEnded, depth > 2 {
                    visit(next, reports + count, 1)
                } else {
                    visit(next, reports + count, depth - 1)
                }
            }
        }
        visit(AttemptMachine(), 0, 5)
        #expect(visited > 10_000)
    }

    @Test("a cancelled attempt ends as cancelled from every state it can be in")
    func cancel() {
        let early = ["end preparation", "discard", "cancelled"]
        #expect(Self.run([.stop(.cancel), .prepared]) == early)
        #expect(Self.run([.stop(.cancel), .preparationFailed(Self.error)]) == early)
        #expect(Self.run([.prepared, .stop(.cancel)]) == ["start", "stop", "discard", "cancelled"])
        let storing: [AttemptMachine.Event] = [
            .prepared, .head(.accept), .transferEnded(nil), .stop(.cancel),
        ]
        #expect(Self.run(storing + [.revoked]) == ["start", "store", "revoke", "discard", "cancelled"])
        #expect(Self.run(storing + [.stored(Self.result)]) == ["start", "store", "revoke", "succeeded"])
    }

    @Test("suspension keeps the bytes, and so does a cancellation that asks for it")
    func suspend() {
        #expect(Self.run([.prepared, .stop(.suspend)]) == ["start", "stop", "keep", "suspended"])
        #expect(Self.run([.stop(.suspend), .prepared]) == ["end preparation", "keep", "suspended"])
        #expect(Self.run([.prepared, .stop(.cancelKeepingBytes)]) == ["start", "stop", "keep", "cancelled"])
        #expect(
            Self.run([.prepared, .head(.accept), .transferEnded(nil), .stop(.suspend), .revoked])
                == ["start", "store", "revoke", "keep", "suspended"])
    }

    @Test("a request that died with its kept connection is repeated once, on a fresh one")
    func repetition() {
        let died = AttemptMachine.Event.transferEnded(.init(Self.error, mayRepeatAtOnce: true))
        #expect(Self.run([.prepared, died, died]) == ["start", "start fresh", "keep", "failed"])
    }

    @Test("a redirect is followed after its body, or when enough of it was read")
    func redirect() {
        #expect(
            Self.run([.prepared, .head(.redirect(isDelayed: false)), .transferEnded(nil)]) == [
                "start", "follow", "start",
            ])
        #expect(
            Self.run([.prepared, .head(.redirect(isDelayed: false)), .enoughDiscarded]) == [
                "start", "stop", "follow", "start",
            ])
    }

    @Test("a refusal holds however its body ends; an accepted body has to be complete")
    func bodies() {
        let cut = AttemptMachine.Event.transferEnded(.init(Self.error, mayRepeatAtOnce: false))
        #expect(
            Self.run([.prepared, .head(.refuse(Self.error, retryAfter: 1)), cut]) == [
                "start", "keep", "failed",
            ])
        #expect(Self.run([.prepared, .head(.accept), cut]) == ["start", "keep", "failed"])
    }

    @Test("a refusal holds whether its body can be stored or not, unless the job is stopped meanwhile")
    func rejections() {
        let refused: [AttemptMachine.Event] = [
            .prepared, .head(.refuseKeepingBody(Self.error, retryAfter: 1)),
        ]
        let cut = AttemptMachine.Event.transferEnded(.init(Self.error, mayRepeatAtOnce: false))
        #expect(Self.run(refused + [cut]) == ["start", "discard", "failed"])
        let late = TransferError(.timedOut, "x", phase: .receiving, isRetryable: true)
        for slow in [AttemptMachine.Event.timedOut(late), .bodyRefused(late), .enoughDiscarded] {
            var machine = AttemptMachine()
            let actions = (refused + [slow]).flatMap { machine.handle($0) }
            #expect(Self.words(actions) == ["start", "stop", "discard", "failed"])
            guard case .report(.failed(let error, retryAfter: 1))? = actions.last else {
                Issue.record("\(actions)")
                continue
            }
            #expect(error == Self.error)
        }
        let whole = refused + [.transferEnded(nil)]
        #expect(Self.run(whole + [.stored(Self.result)]) == ["start", "store", "discard", "failed"])
        #expect(Self.run(whole + [.published]) == ["start", "store", "left"])
        let full = TransferError(.storageFull, "x", phase: .finishing, isRetryable: true)
        for lost in [AttemptMachine.Event.storageFailed(full), .placeLost(full)] {
            var machine = AttemptMachine()
            let actions = (whole + [lost]).flatMap { machine.handle($0) }
            #expect(Self.words(actions) == ["start", "store", "discard", "failed"])
            guard case .report(.failed(let error, retryAfter: 1))? = actions.last else {
                Issue.record("\(actions)")
                continue
            }
            #expect(error == Self.error)
        }
        #expect(
            Self.run(whole + [.stop(.cancel), .revoked]) == [
                "start", "store", "revoke", "discard", "cancelled",
            ])
    }

    @Test("wrong bytes are discarded, incomplete ones kept")
    func bytes() {
        let wrong = TransferError(.digestMismatch, "x", phase: .finishing, isRetryable: true)
        let stored: [AttemptMachine.Event] = [.prepared, .head(.accept), .transferEnded(nil)]
        #expect(Self.run(stored + [.storageFailed(wrong)]) == ["start", "store", "discard", "failed"])
        #expect(
            Self.run([.prepared, .head(.accept), .timedOut(Self.error)])
                == ["start", "stop", "keep", "failed"])
    }

    @Test("a request is sent again with four changes at most, and with more after new bytes have come")
    func changes() {
        let again: [AttemptMachine.Event] = [.head(.again), .transferEnded(nil)]
        let four = Array(repeatElement(again, count: 4).joined())
        let changed = Array(repeatElement(["change", "start"], count: 4).joined())
        #expect(
            Self.run([.prepared] + four + [.head(.again), .enoughDiscarded])
                == ["start"] + changed + ["stop", "discard", "failed"])
        #expect(
            Self.run([.prepared] + four + [.head(.accept), .interrupted] + again)
                == ["start"] + changed + ["stop", "start later", "change", "start"])
    }

    @Test("a body that stops, and a request that has to wait, lead to another request later")
    func later() {
        #expect(
            Self.run([.prepared, .head(.accept), .interrupted, .head(.accept), .transferEnded(nil)])
                == ["start", "stop", "start later", "store"])
        #expect(Self.run([.prepared, .head(.wait), .transferEnded(nil)]) == ["start", "start later"])
        #expect(
            Self.run([.prepared, .head(.accept), .interrupted, .stop(.suspend)])
                == ["start", "stop", "start later", "stop", "keep", "suspended"])
    }

    @Test("a redirect is followed at once, or after its delay")
    func redirects() {
        func run(isDelayed: Bool) -> [String] {
            Self.run([.prepared, .head(.redirect(isDelayed: isDelayed)), .transferEnded(nil)])
        }
        #expect(run(isDelayed: false) == ["start", "follow", "start"])
        #expect(run(isDelayed: true) == ["start", "follow", "start later"])
    }

    @Test("wrong bytes are discarded and fetched again, unless the attempt was stopped")
    func fetchAgain() {
        let storing: [AttemptMachine.Event] = [.prepared, .head(.accept), .transferEnded(nil)]
        #expect(
            Self.run(storing + [.fetchAgain, .head(.accept), .transferEnded(nil), .stored(Self.result)])
                == ["start", "store", "discard", "start", "store", "succeeded"])
        #expect(
            Self.run(storing + [.stop(.cancel), .fetchAgain]) == [
                "start", "store", "revoke", "discard", "cancelled",
            ])
        #expect(Self.run(storing + [.fetchAgain, .release]).suffix(3) == ["stop", "keep", "released"])
    }

    @Test("a deadline during the preparation ends the attempt, unless it was stopped before")
    func earlyTimeout() {
        let ends = ["end preparation", "keep", "failed"]
        #expect(Self.run([.timedOut(Self.error), .prepared]) == ends)
        #expect(Self.run([.timedOut(Self.error), .preparationFailed(Self.error)]) == ends)
        #expect(Self.run([.timedOut(Self.error), .release, .prepared]).last == "failed")
        #expect(Self.run([.timedOut(Self.error), .stop(.cancel), .prepared]).last == "cancelled")
        #expect(Self.run([.release, .timedOut(Self.error), .prepared]).last == "released")
    }

    @Test(
        "an attempt that waits too long for a disk fails, or ends as it was asked to before"
    )
    func placeLost() {
        let error = TransferError(.storageUnavailable, "silent", phase: .finishing, isRetryable: true)
        #expect(Self.run([.placeLost(error), .prepared]) == ["end preparation", "keep", "failed"])
        let stored: [AttemptMachine.Event] = [.prepared, .head(.accept), .transferEnded(nil)]
        #expect(
            Self.run(stored + [.placeLost(error), .published]) == ["start", "store", "keep", "failed"])
        #expect(
            Self.run(stored + [.stop(.suspend), .placeLost(error), .revoked])
                == ["start", "store", "revoke", "keep", "suspended"])
        #expect(Self.run(stored + [.published, .placeLost(error)]) == ["start", "store", "left"])
    }

    @Test("an attempt that only checks its destination ends at once, or starts after the check")
    func checking() {
        #expect(Self.run([.onlyChecks, .prepared]) == ["start"])
        #expect(Self.run([.onlyChecks, .preparationFailed(Self.error)]) == ["keep", "failed"])
        #expect(Self.run([.onlyChecks, .stop(.suspend), .prepared]) == ["keep", "suspended"])
        #expect(Self.run([.onlyChecks, .stop(.cancel), .prepared]) == ["discard", "cancelled"])
        #expect(Self.run([.onlyChecks, .release, .prepared]) == ["keep", "released"])
        #expect(Self.run([.onlyChecks, .timedOut(Self.error), .prepared]) == ["keep", "failed"])
        #expect(Self.run([.release, .onlyChecks, .prepared]) == ["end preparation", "keep", "released"])
    }

    @Test("a disk that hangs or fails during the preparation costs no earlier bytes")
    func awayDisk() {
        let error = TransferError(.storageUnavailable, "away", phase: .finishing, isRetryable: true)
        #expect(Self.run([.preparationFailed(error)]) == ["keep", "failed"])
        let body: [AttemptMachine.Event] = [.prepared, .head(.accept)]
        #expect(Self.run(body + [.placeLost(error)]) == ["start", "stop", "keep", "failed"])
        // Nobody knows what a write has done that failed.
        #expect(Self.run(body + [.bodyRefused(error)]) == ["start", "stop", "discard", "failed"])
    }

    @Test("a drain waits for publications")
    func drain() {
        #expect(
            Self.run([.prepared, .head(.accept), .transferEnded(nil), .release, .stored(Self.result)])
                == ["start", "store", "succeeded"])
        #expect(Self.run([.prepared, .release]) == ["start", "stop", "keep", "released"])
    }
}
