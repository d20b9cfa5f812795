internal import FerryCore
internal import HTTPServer

extension API {
    /// `GET /v1/jobs/{id}/deliveries`
    func listDeliveries(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            let (limit, before) = try call.page { cursor throws(Problem) -> DeliveryID in try position(cursor)
            }
            ports.deliveries.deliveries(
                of: id, tenant: call.principal.tenant, before: before, limit: limit + 1
            ) { result in
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

    /// `GET /v1/deliveries/{id}`
    func readDelivery(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(DeliveryID.self)
            ports.deliveries.delivery(id, tenant: call.principal.tenant) { sendDelivery($0, call) }
        }
    }

    /// `POST /v1/deliveries/{id}/redeliver`
    func redeliver(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(DeliveryID.self)
            try needEmptyObject(call)
            ports.deliveries.redeliver(id, tenant: call.principal.tenant) { sendDelivery($0, call) }
        }
    }
}

func sendDelivery(_ result: Result<DeliveryRecord, StoreError>, _ call: RequestContext) {
    switch result {
    case .failure(let error): call.fail(error)
    case .success(let delivery):
        var writer = JSONWriter()
        delivery.write(into: &writer, isRedacted: call.disclosure.isRedacted)
        let json = writer.bytes
        call.send(200, tag: entityTag(changeable: [], shown: json)) { json }
    }
}

extension DeliveryRecord {
    func write(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("event", event)
        writer.member("type", type)
        writer.memberOrNull("job", job?.description)
        writer.memberOrNull("webhook", webhook?.description)
        writer.memberOrNull("session", session.isEmpty ? nil : session)
        writer.member("sequence", sequence)
        writer.member("url", isRedacted ? RedactedURL.text(of: url) : url)
        writer.member("state", state.rawValue)
        writer.member("occurred_at", occurredAt)
        writer.memberOrNull("next_try_at", nextTryAt)
        writer.name("tries")
        writer.beginArray()
        for attempt in tries {
            writer.beginObject()
            writer.member("number", attempt.number)
            writer.member("started_at", attempt.startedAt)
            writer.member("duration", attempt.duration)
            writer.memberOrNull("status", attempt.status)
            writer.memberOrNull("error", attempt.error)
            writer.member("answer", attempt.answer)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
    }
}
