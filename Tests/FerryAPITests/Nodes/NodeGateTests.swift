import FerryCore
import HTTPServer
import OpenSSL
import Synchronization
import TestSupport
import Testing

@testable import FerryAPI

/// A clock that the test sets.
final class SetClock: WallClock {
    private let time = Mutex(Timestamp(microseconds: 1_795_298_400_000_000))
    func now() -> Timestamp { time.withLock { $0 } }
    func advance(_ seconds: Double) { time.withLock { $0 = $0 + seconds } }
}

@Suite("Requests of other nodes")
struct NodeGateTests {
    private let key = SecretBox(key: Array("a key of all nodes".utf8)).key(for: NodeSignature.purpose)
    private let own = NodeID(high: 1, low: 1)
    private let other = NodeID(high: 1, low: 2)
    private let clock = SetClock()
    private let gate: NodeGate
    private static let target = "/v1/jobs/x/content?follow=true"

    init() { gate = NodeGate(node: own, key: key, clock: clock) }

    private var signature: NodeSignature {
        NodeSignature(time: clock.now(), from: other, to: own, role: .client, tenant: "acme")
    }

    private func head(
        _ authorization: String, method: String = "GET", target: String = NodeGateTests.target
    ) -> RequestHead {
        RequestHead(
            method: method, target: target, fields: HTTPFields([("Authorization", authorization)]))
    }

    /// Returns why a request is refused; `nil` if it is accepted.
    private func refusal(_ head: RequestHead) -> String? {
        do throws(Problem) {
            _ = try gate.accept(head)
            return nil
        } catch {
            #expect(error.code == "node_request_refused" && error.status == 401)
            return error.detail
        }
    }

    @Test("a signed request is accepted once, with the client's tenant and role")
    func once() throws {
        let text = signature.authorization(method: "GET", target: Self.target, key: key)
        #expect(NodeGate.concerns(head(text)) && !NodeGate.concerns(head("Bearer fk_1")))
        let principal = try gate.accept(head(text))
        #expect(principal.tenant == "acme" && principal.role == .client)
        #expect(refusal(head(text)) == "The request came before.")
        // Also when the span of its nonce has ended.
        clock.advance(Limits.nodeRequestSecondsMax)
        #expect(refusal(head(text)) == "The request came before.")
    }

    @Test("a request with another method, target, key, member or node is refused")
    func forged() throws {
        let text = signature.authorization(method: "GET", target: Self.target, key: key)
        let forgeries = [
            head(text, method: "HEAD"), head(text, target: "/v1/jobs/y/content?follow=true"),
            head(text.replacing("role=client", with: "role=admin")),
            head(text.replacing("tenant=acme", with: "tenant=other")),
            head(text.replacing("nonce=", with: "nonce=0")), head(text + "00"), head("Ferry-Node "),
            head(signature.authorization(method: "GET", target: Self.target, key: Array("another".utf8))),
        ]
        for forgery in forgeries { #expect(refusal(forgery)?.contains("signature") == true) }
        var misdirected = signature
        misdirected.to = other
        let authorization = misdirected.authorization(method: "GET", target: Self.target, key: key)
        #expect(refusal(head(authorization))?.contains("this is \(own)") == true)
        #expect(refusal(head(text)) == nil, "a refused request uses up no nonce")
    }

    @Test("a request is refused if its time is beyond the window in either direction")
    func window() throws {
        for (seconds, isAccepted) in [(29.0, true), (-29, true), (31, false), (-31, false)] {
            var signature = signature
            signature.time = clock.now() + seconds
            let text = signature.authorization(method: "GET", target: Self.target, key: key)
            #expect((refusal(head(text)) == nil) == isAccepted, "\(seconds)")
        }
    }

    @Test("a request with the latest accepted time cannot be repeated while that time is accepted")
    func future() throws {
        var signature = signature
        signature.time = clock.now() + Limits.nodeRequestSecondsMax
        let text = signature.authorization(method: "GET", target: Self.target, key: key)
        #expect(refusal(head(text)) == nil)
        for _ in 0..<4 {
            clock.advance(Limits.nodeRequestSecondsMax / 2)
            // Other requests let the spans of nonces pass.
            #expect(
                refusal(
                    head(self.signature.authorization(method: "GET", target: Self.target, key: key))) == nil)
            #expect(refusal(head(text)) == "The request came before.")
        }
        clock.advance(1)
        #expect(refusal(head(text))?.contains("differs by more than 30 s") == true)
    }

    @Test("progress is read as it was written")
    func progress() throws {
        let transfers = [
            RunningTransfer(
                job: JobID(high: 1, low: 1), tenant: "acme", session: "s",
                progress: TransferProgress(
                    bytesReceived: 1, bytesExpectedToReceive: 2, bytesSent: 3, bytesExpectedToSend: 4,
                    bytesPerSecond: 5.5, resumedAtOffset: 6)),
            RunningTransfer(
                job: JobID(high: 1, low: 2), tenant: "b", session: "default", progress: TransferProgress()),
        ]
        #expect(NodeProgress.read(NodeProgress.write(transfers)) == transfers)
        #expect(NodeProgress.read(Array("{}".utf8)) == nil)
        let jobs = Set(transfers.map(\.job))
        let head = RequestHead(method: "GET", target: NodeProgress.target(jobs))
        #expect(head.path == NodeProgress.path)
        #expect(try NodeProgress.jobs(head) == jobs)
        #expect(try NodeProgress.jobs(RequestHead(method: "GET", target: NodeProgress.target(nil))) == nil)
        for query in ["jobs=junk", "job=\(transfers[0].job)", "jobs=\(transfers[0].job),\(transfers[0].job)"]
        {
            #expect(throws: Problem.self) {
                try NodeProgress.jobs(RequestHead(method: "GET", target: "\(NodeProgress.path)?\(query)"))
            }
        }
    }
}
