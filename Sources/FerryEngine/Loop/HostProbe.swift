import Curl
import FerryCore

/// Finds out whether an origin can be reached: connects under the same rules as a transfer, with TLS for
/// `https`, and sends no request. Loop thread only.
final class HostProbe: EasyDelegate {
    static let stopped = TransferError(
        .couldNotConnect, "The node is about to stop.", phase: .connecting, isRetryable: true)

    private let url: WebURL
    private let context: EngineContext
    private let reply: @Sendable (TransferError?) -> Void

    private init(
        _ url: WebURL, _ context: EngineContext, _ reply: @escaping @Sendable (TransferError?) -> Void
    ) {
        self.url = url
        self.context = context
        self.reply = reply
    }

    static func start(
        _ origin: String, on loop: EngineLoop, _ reply: @escaping @Sendable (TransferError?) -> Void
    ) {
        // An invalid URL says nothing about a host. Its jobs fail by themselves.
        guard let url = try? WebURL.parse(origin) else { return reply(nil) }
        let probe = HostProbe(url, loop.context, reply)
        var request = TransferRequest(url: url.string)
        request.connectsOnly = true
        request.usesFreshConnection = true
        request.keepsConnection = false
        request.connectTimeout = EngineLimits.connectTimeout
        request.totalTimeout = EngineLimits.connectTimeout
        request.proxy = probe.proxy
        do throws(CurlError) {
            _ = try loop.multi.start(request, delegate: probe)
        } catch {
            reply(probe.failure(error, TransferInfo()))
        }
    }

    /// The service's proxy, which transfers without a proxy of their own use.
    private var proxy: TransferRequest.Proxy? {
        guard let service = context.builder.serviceProxy, !service.bypass.contains(url) else { return nil }
        return context.builder.connection(through: service)
    }

    func willConnect(to address: SocketAddress) -> Bool {
        proxy != nil || context.allows(address, for: url.scheme.endpoint)
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict { .abort }

    func finished(_ outcome: TransferOutcome) {
        guard let error = outcome.error, outcome.blockedAddress == nil else { return reply(nil) }
        // A host that does not exist is not waited for: its jobs run, and fail.
        context.names.judge(failure(error, outcome.info)) { [reply] error in
            reply(error.code == .hostNotFound && !error.isRetryable ? nil : error)
        }
    }

    private func failure(_ error: CurlError, _ info: TransferInfo) -> TransferError {
        let facts = TransportContext(
            hasHead: false, isRepeatable: true, sentWholeBody: false,
            proxy: proxy == nil ? nil : context.builder.serviceProxy?.url.scheme,
            isSecure: url.scheme == .https, host: url.host)
        return transportFailure(error, info, facts).error
    }
}
