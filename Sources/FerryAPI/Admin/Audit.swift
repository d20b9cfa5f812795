package import FerryCore
internal import HTTPServer
internal import Logging

/// What operators have asked for.
package protocol AuditLog: Sendable {
    /// Keeps a request before it is carried out.
    func beginAudit(_ entry: AuditEntry, reply: @escaping Reply<Void>)
    /// Keeps the status of its answer; `body`: of a request that was carried out.
    func endAudit(_ id: AuditID, status: Int, body: [UInt8]?, reply: @escaping Reply<Void>)
    /// Newest first, only those before `before`.
    func audit(before: AuditID?, limit: Int, reply: @escaping Reply<[AuditEntry]>)
}

extension Route {
    /// Whether an operator changes something.
    var isAudited: Bool { role == .admin && method != "GET" }
}

extension API {
    /// Carries the request out once it is kept who asked for what; without that nothing is done.
    func audit(_ call: RequestContext, _ route: Route) {
        let head = call.request.head
        let entry = AuditEntry(
            id: identifiers.make(), requestedAt: ports.clock.now(),
            key: call.principal.key,
            operation: route.operation.rawValue, path: head.path, requestID: head.requestID)
        ports.audit.beginAudit(entry) { [self] result in
            if case .failure(let error) = result { return call.fail(error) }
            var call = call
            // What was understood holds no secret: no request of operators has a field for one.
            let body = route.body == .none || call.request.body.isEmpty ? nil : call.request.body
            call.witness = { [ports, logger] response in
                let isDone = (200..<300).contains(response.status)
                ports.audit.endAudit(entry.id, status: response.status, body: isDone ? body : nil) { kept in
                    guard case .failure(let error) = kept else { return }
                    logger.error(
                        "The outcome of an operator's request was not kept.",
                        metadata: ["request.id": "\(entry.requestID)", "error": "\(error)"])
                }
            }
            route.handle(self)(call)
        }
    }

    /// `GET /v1/admin/audit`
    func listAudit(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let (limit, before) = try call.page { cursor throws(Problem) -> AuditID in try position(cursor) }
            ports.audit.audit(before: before, limit: limit + 1) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let entries):
                    Page(entries, limit: limit) { $0.id }.send(call, reservingCapacity: 16_384) {
                        $0.write(into: &$1)
                    }
                }
            }
        }
    }
}

extension AuditEntry {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("requested_at", requestedAt)
        writer.memberOrNull("key", key?.description)
        writer.memberOrNull("key_name", keyName)
        writer.member("operation", operation)
        writer.member("path", path)
        writer.member("request_id", requestID)
        writer.memberOrNull("status", status)
        writer.name("body")
        if let body { writer.raw(body) } else { writer.null() }
        writer.endObject()
    }
}
