package import FerryCore
internal import HTTPServer
internal import Synchronization

/// Decides which requests of other nodes this node answers: those that a node with the same
/// `FERRY_SECRET_KEY` has signed for this node, a short time ago, and that have not come before. Any thread.
package final class NodeGate: Sendable {
    /// Nonces of the accepted requests. A nonce is remembered for one to two spans, which is longer than its
    /// time is accepted.
    private struct Nonces {
        var current: Set<String> = []
        var previous: Set<String> = []
        var began: Timestamp

        /// Adds a nonce. Returns `false` if it is known.
        mutating func add(_ nonce: String, at now: Timestamp) -> Bool {
            let spans = (now - began) / (2 * Limits.nodeRequestSecondsMax)
            // A clock that was set back keeps what it knows.
            if spans >= 1 {
                previous = spans >= 2 ? [] : current
                current = []
                began = now
            }
            guard !previous.contains(nonce) else { return false }
            return current.insert(nonce).inserted
        }
    }

    /// The node that answers.
    let node: NodeID
    private let key: [UInt8]
    private let clock: any WallClock
    private let nonces: Mutex<Nonces>

    /// `key`: `SecretBox.key(for: NodeSignature.purpose)`. `clock`: one that all nodes have in common.
    package init(node: NodeID, key: [UInt8], clock: any WallClock) {
        self.node = node
        self.key = key
        self.clock = clock
        nonces = Mutex(Nonces(began: clock.now()))
    }

    /// Whether a request says that it comes from a node.
    static func concerns(_ head: RequestHead) -> Bool {
        head.fields["Authorization"]?.hasPrefix(NodeSignature.scheme + " ") ?? false
    }

    /// Returns for whom the node asks. Otherwise throws `node_request_refused`. Accepts a request once.
    func accept(_ head: RequestHead) throws(Problem) -> Principal {
        let values = head.fields.all("Authorization")
        guard values.count == 1,
            let signature = NodeSignature(
                authorization: values[0], method: head.method, target: head.target, key: key)
        else {
            throw Problem(
                .nodeRequestRefused,
                "The signature is not one that this FERRY_SECRET_KEY makes for this request.")
        }
        guard signature.to == node else {
            throw Problem(.nodeRequestRefused, "The request is for \(signature.to); this is \(node).")
        }
        let now = clock.now()
        guard abs(now - signature.time) <= Limits.nodeRequestSecondsMax else {
            throw Problem(
                .nodeRequestRefused,
                "The time of the request differs by more than \(Int(Limits.nodeRequestSecondsMax)) s from "
                    + "this node's clock.")
        }
        let isNew = try nonces.withLock { nonces throws(Problem) in
            guard nonces.current.count < Limits.nodeNonceCountMax else {
                throw Problem(.nodeRequestRefused, "Too many requests of nodes came within a minute.")
            }
            return nonces.add(signature.nonce, at: now)
        }
        guard isNew else { throw Problem(.nodeRequestRefused, "The request came before.") }
        return Principal(key: KeyID(high: 0, low: 0), tenant: signature.tenant, role: signature.role)
    }
}
