import Curl
import FerryCore

/// Whom an attempt talks to, and how it answers for itself.
extension LiveTransfer {
    func allows(_ address: SocketAddress) -> Bool {
        // The address is the proxy's, which the operator has named.
        if context.builder.usesServiceProxy(attempt, hop.url) { return true }
        let plain =
            address.isIPv6
            ? IPAddress(v6High: address.high, low: address.low)
            : IPAddress(v4: UInt32(truncatingIfNeeded: address.low))
        return context.configuration.egress.allows(plain, port: address.port)
    }

    /// Whether libcurl answers a challenge of this hop by itself.
    var answersChallenges: Bool {
        hop.keepsCredentials && attempt.spec.request.connection?.authentication?.scheme == .digest
    }

    /// Judges a head that libcurl did not answer by itself.
    func takeHeldHead() -> Bool {
        guard isHeadHeld, let head else { return true }
        isHeadHeld = false
        return takeHead(head)
    }
}
