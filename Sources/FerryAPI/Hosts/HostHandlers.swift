package import FerryCore
internal import HTTPServer

/// Stores what is known of hosts, and the settings of operators.
package protocol HostStore: Sendable {
    /// Replies with hosts in the order of their origins, only those after `origin`.
    func hosts(after origin: String, limit: Int, reply: @escaping Reply<[HostRecord]>)
    /// Replies with one host; an unknown host has the default settings.
    func host(_ origin: String, reply: @escaping Reply<HostRecord>)
    /// Changes the settings on every node. `isAllowed` as in `LimitStore`. `overloaded` if there are too many
    /// hosts already.
    func changeHost(
        _ origin: String, _ patch: HostPatch, if isAllowed: @escaping @Sendable (HostRecord) -> Bool,
        reply: @escaping Reply<Result<HostRecord, InvalidFields>>)
}

/// Shows hosts and changes their settings.
final class HostHandlers: Sendable {
    private let store: any HostStore

    init(_ store: any HostStore) { self.store = store }

    /// `GET /v1/admin/hosts`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, after) = try request.page(hostPosition)
        store.hosts(
            after: after ?? "", limit: limit + 1,
            reply: request.onSuccess { hosts in
                Page(hosts, limit: limit) { $0.origin }
                    .send(request, reservingCapacity: 8_192)
            })
    }

    /// `GET /v1/admin/hosts/{host}`
    func read(_ request: RequestContext) throws(Problem) {
        store.host(try origin(request), reply: request.onSuccess { send($0, request) })
    }

    /// `PATCH /v1/admin/hosts/{host}`: a merge patch.
    func change(_ request: RequestContext) throws(Problem) {
        let origin = try origin(request)
        let json = try request.mergePatch()
        let patch = try valid(try HostPatch(body: json))
        let isAllowed = request.changeCondition
        store.changeHost(origin, patch, if: { isAllowed($0.changeable) }) { result in
            guard case .failure(.overloaded) = result else {
                return request.onValid { send($0, request) }(result)
            }
            request.fail(
                Problem(
                    .limitReached,
                    "Too many hosts have settings or failures; clear the settings of other hosts."))
        }
    }
}

private func origin(_ request: RequestContext) throws(Problem) -> String {
    guard let reference = request.parameters.first.flatMap(HostReference.init) else {
        throw Problem(
            .invalidParameter,
            "The host must be https://host:port, percent-encoded, or host, or host:port.")
    }
    return reference.origin
}

/// Cursors of the list of hosts are origins. An address may have any of its forms.
private func hostPosition(_ cursor: String) throws(Problem) -> String {
    guard let reference = HostReference(cursor), reference.scheme != nil else { throw Problem.unknownCursor }
    return reference.origin
}

private func send(_ host: HostRecord, _ request: RequestContext) {
    let json = host.shown(reservingCapacity: 4_096)
    request.send(200, tag: entityTag(changeable: host.changeable, shown: json)) { json }
}
