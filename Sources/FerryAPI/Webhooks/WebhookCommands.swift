internal import FerryCore
internal import HTTPServer

/// Seconds that a ping's answer is waited for: a whole try, and what it takes to begin one.
private let pingWait = 20.0
private let standardOverlap = 86_400.0
/// What a delivery may be about.
private let deliveryTypes = EventType.allCases.map(\.rawValue) + [WebhookPing.type]

extension API {
    /// `POST /v1/webhooks/{id}/rotate_secret`: this answer shows the new secret.
    func rotateSecret(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(WebhookID.self)
            let overlap = try overlap(call)
            let (key, now) = (makeWebhookKey(), ports.clock.now())
            let (open, seal) = (ports.openWebhookKeys, ports.seal)
            changeWebhook(id, call) { record throws(InvalidFields) in
                var record = record
                // Keys that cannot be opened sign nothing: new ones alone are what is left.
                var keys = open(record.sealedKeys) ?? WebhookKeys(key)
                if keys.newest != key { keys.rotate(to: key, overlap: overlap, now: now) }
                record.sealedKeys = seal(keys.encode())
                record.publicKey = publicKeyText(key)
                return record
            } done: { [self] record in
                sendWebhook(record, 200, call, secret: key.secret)
            }
        }
    }

    /// `overlap_seconds`.
    private func overlap(_ call: RequestContext) throws(Problem) -> Double {
        let complaints = ValidationErrors()
        var overlap = standardOverlap
        if var fields = FieldReader(try call.json(isOptional: true), at: "#", complaints) {
            overlap = fields.number("overlap_seconds", in: 0...Limits.webhookOverlapMax) ?? overlap
            fields.finish()
        }
        if !complaints.isEmpty { throw Problem(InvalidFields(complaints.errors)) }
        return overlap
    }

    /// `POST /v1/webhooks/{id}/test`: a real request, signed; the answer shows what came back.
    func testWebhook(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(WebhookID.self)
            try needEmptyObject(call)
            let tenant = call.principal.tenant
            let trace = traceContext(call.fields)
            ports.webhooks.pingWebhook(id, tenant: tenant, traceparent: trace) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let ping): awaitPing(ping, tenant: tenant, call)
                }
            }
        }
    }

    /// Any node may send it, so that it is looked for where every node sees it.
    private func awaitPing(_ id: DeliveryID, tenant: String, _ call: RequestContext) {
        let deliveries = ports.deliveries
        let waiters = ports.waiters
        // Waits like a job: of a name only it matters that nobody else has it.
        _ = waiters.wait(
            for: JobID(high: id.high, low: id.low), seconds: pingWait,
            look: { token in
                deliveries.delivery(id, tenant: tenant) { result in
                    if case .success(let delivery) = result, delivery.tries.isEmpty { return }
                    waiters.finish(token)
                }
            },
            done: { deliveries.delivery(id, tenant: tenant) { sendDelivery($0, call) } })
    }

    /// `POST /v1/webhooks/{id}/replay`
    func replayDeliveries(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(WebhookID.self)
            let range = try replayRange(call)
            ports.webhooks.replay(
                id, tenant: call.principal.tenant, since: range.since, until: range.until,
                onlyFailed: range.onlyFailed
            ) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let count):
                    var writer = JSONWriter()
                    writer.beginObject()
                    writer.member("redelivered", count)
                    writer.endObject()
                    call.send(200, json: writer.bytes)
                }
            }
        }
    }

    private enum ReplayOnly: String, CaseIterable { case failed }

    private func replayRange(
        _ call: RequestContext
    ) throws(Problem) -> (since: Timestamp, until: Timestamp?, onlyFailed: Bool) {
        let complaints = ValidationErrors()
        var range: (since: Timestamp, until: Timestamp?, onlyFailed: Bool)?
        if var fields = FieldReader(try call.json(), at: "#", complaints) {
            if !fields.has("since") { fields.complain("since", "required", "Say since when.") }
            if fields.value("since")?.isNull == true {
                fields.complain("since", "wrong_type", "This must be a string, not null.")
            }
            let since = fields.timestamp("since")
            let until = fields.timestamp("until")
            let isNull = fields.value("only")?.isNull == true
            let only = isNull ? nil : fields.choice("only", ReplayOnly.self)
            if let since, let until, until <= since {
                fields.complain("until", "invalid_combination", "This must be after since.")
            }
            fields.finish()
            range = since.map { ($0, until, only == .failed) }
        }
        guard complaints.isEmpty, let range else { throw Problem(InvalidFields(complaints.errors)) }
        return range
    }

    /// `GET /v1/webhooks/{id}/deliveries`
    func listWebhookDeliveries(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(WebhookID.self)
            var limit = Limits.listLimitDefault
            var before: DeliveryID?
            var state: DeliveryRecord.State?
            var type: String?
            for (name, value) in call.query {
                switch name {
                case "limit": limit = try pageLimit(value)
                case "cursor": before = try position(value)
                case "state":
                    state = DeliveryRecord.State(rawValue: value)
                    if state == nil {
                        throw Problem(
                            .invalidParameter, "state must be pending, accepted or given_up.")
                    }
                default:
                    guard deliveryTypes.contains(value) else {
                        let all = deliveryTypes.joined(separator: ", ")
                        throw Problem(.invalidParameter, "type takes one value, one of: \(all).")
                    }
                    type = value
                }
            }
            ports.webhooks.deliveries(
                of: id, tenant: call.principal.tenant, state: state, type: type, before: before,
                limit: limit + 1
            ) { [limit] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let deliveries):
                    Page(deliveries, limit: limit) { $0.id }.send(call, reservingCapacity: 4_096) {
                        $0.write(into: &$1, isRedacted: call.disclosure.isRedacted)
                    }
                }
            }
        }
    }
}
