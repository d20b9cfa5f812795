package import FerryCore
internal import HTTPServer

/// Stores the limits of tenants.
package protocol TenantLimitStore: Sendable {
    /// Replies with the limits of a tenant; none for an unknown tenant.
    func tenantLimits(_ tenant: String, reply: @escaping Reply<TenantLimits>)
    /// Replaces the limits of a tenant on every node. `isAllowed` gets the limits before; if it returns
    /// `false`, the result is `stale`. The store may call it more than once.
    func replaceTenantLimits(
        _ tenant: String, _ limits: TenantLimits, if isAllowed: @escaping @Sendable (TenantLimits) -> Bool,
        reply: @escaping Reply<TenantLimits>)
}

/// Shows and replaces the limits of tenants.
final class TenantLimitHandlers: Sendable {
    private let store: any TenantLimitStore

    init(_ store: any TenantLimitStore) { self.store = store }

    /// `GET /v1/admin/tenants/{tenant}/limits`
    func read(_ request: RequestContext) throws(Problem) {
        store.tenantLimits(try tenant(request), reply: request.onSuccess { send($0, request) })
    }

    /// `PUT /v1/admin/tenants/{tenant}/limits`
    func replace(_ request: RequestContext) throws(Problem) {
        let tenant = try tenant(request)
        let limits = try request.decoded(TenantLimits.self)
        let isAllowed = request.changeCondition
        store.replaceTenantLimits(
            tenant, limits, if: { isAllowed($0.json) }, reply: request.onSuccess { send($0, request) })
    }
}

private func tenant(_ request: RequestContext) throws(Problem) -> String {
    let name = request.parameters.first ?? ""
    guard APIKey.isTenant(name) else {
        throw Problem(
            .invalidParameter,
            "The name of a tenant must have 1 to \(Limits.nameByteCountMax) lower-case letters, digits, - "
                + "and _.")
    }
    return name
}

private func send(_ limits: TenantLimits, _ request: RequestContext) {
    let json = limits.json
    request.send(200, tag: entityTag(changeable: json, shown: json)) { json }
}
