public import FerryCore
internal import HTTPServer
internal import Logging

/// Stores the requests by which operators change something, and those that start an operation on many jobs.
package protocol AuditLog: Sendable {
    /// Stores a request before it is carried out.
    func beginAudit(_ entry: AuditEntry, reply: @escaping Reply<Void>)
    /// Stores the status of the response. `body`: body of the request; `nil` if it was not carried out.
    func endAudit(_ id: AuditID, status: Int, body: [UInt8]?, reply: @escaping Reply<Void>)
    /// Replies with entries, newest first, only those before `before`.
    func audit(before: AuditID?, limit: Int, reply: @escaping Reply<[AuditEntry]>)
}

extension Route {
    /// Whether requests of this route are recorded: those by which an operator changes something, and those
    /// that start an operation on many jobs.
    var isAudited: Bool { role == .admin && method != "GET" || operation.startsBulkOperation }
}

/// Records the requests of operators, and lists them.
final class AuditTrail: Sendable {
    private let log: any AuditLog
    private let clock: any WallClock
    private let identifiers: IdentifierGenerator
    private let logger: Logger
    /// Longest body that an entry has, in bytes. Only lists of jobs are longer.
    private static let bodyByteCountMax = 65_536

    init(_ ports: APIPorts, _ identifiers: IdentifierGenerator, _ logger: Logger) {
        log = ports.store.audit
        clock = ports.clock
        self.identifiers = identifiers
        self.logger = logger
    }

    /// Records the request, then calls `handle`, then records its response. If the request cannot be
    /// recorded, responds with the error instead of calling `handle`.
    func record(
        _ request: RequestContext, _ route: Route, _ handle: @escaping @Sendable (RequestContext) -> Void
    ) {
        let entry = AuditEntry(
            id: identifiers.make(), requestedAt: clock.now(), key: request.principal.key,
            operation: route.operation.rawValue, path: request.head.path, requestID: request.head.requestID)
        // Accepted bodies hold no secrets: no request of an operator has a field for one.
        let isKept = route.body != .none && (1...Self.bodyByteCountMax).contains(request.body.count)
        let body = isKept ? request.body : nil
        log.beginAudit(
            entry,
            reply: request.onSuccess { [log, logger] in
                var request = request
                request.observer = { response in
                    let isDone = (200..<300).contains(response.status)
                    log.endAudit(entry.id, status: response.status, body: isDone ? body : nil) { result in
                        guard case .failure(let error) = result else { return }
                        logger.error(
                            "The response to an operator's request could not be added to the audit log.",
                            metadata: ["request.id": "\(entry.requestID)", "error": "\(error)"])
                    }
                }
                handle(request)
            })
    }

    /// `GET /v1/admin/audit`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: AuditID.self)
        log.audit(
            before: before, limit: limit + 1,
            reply: request.onSuccess { entries in
                Page(entries, limit: limit) { $0.id }
                    .send(request, reservingCapacity: 16_384)
            })
    }
}

extension AuditEntry: ShownObject {
    public static let summary =
        "A request by which an operator changed something, or which started an operation on many jobs."
    public static let schemaName = "AuditEntry"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the entry.")
        list.member("requested_at", \.requestedAt, "Time of the request.")
        list.member("key", \.key, "The key of the request, or null in entries of older versions.")
        list.member(
            "key_name", \.keyName,
            "Name of the key; FERRY_ADMIN_KEY for the key of the configuration.")
        list.member("operation", \.operation, "The operationId of the request in this document.")
        list.member("path", \.path, "Path of the request.")
        list.member("request_id", \.requestID, "Identifier of the request, as in X-Request-Id and the log.")
        list.member(
            "status", \.status,
            "HTTP status code of the response, or null if the result of the request is not known.")
        list.member(
            "body", { $0.body.map(StoredJSON<JSON>.init) },
            "JSON body of the request. Null if the request had none, or one of more than 64 KiB, or was not "
                + "carried out.")
    }
}
