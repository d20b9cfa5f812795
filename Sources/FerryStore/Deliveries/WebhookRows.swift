import FerryCore
import Postgres

// Webhook endpoints as rows.

extension WebhookRecord {
    /// Reads a row of read_webhook.sql.
    init(_ rows: borrowing ResultSet, _ row: Int) {
        var endpoint = WebhookEndpoint(
            url: rows.text(row, 5),
            filter: WebhookFilter(
                types: rows.isNull(row, 6) ? nil : rows.textArray(row, 6).compactMap { $0 },
                session: rows.textOrNil(row, 7), metadata: JobSpec.Pair.pairs(of: rows.jsonbOrNil(row, 8))))
        endpoint.description = rows.textOrNil(row, 9)
        endpoint.isEnabled = rows.bool(row, 10)
        endpoint.isOrdered = rows.bool(row, 11)
        endpoint.format = WebhookEndpoint.Format(rawValue: rows.text(row, 12)) ?? .standard
        endpoint.retryDelays = rows.float64Array(row, 13).compactMap { $0 }
        endpoint.disableAfter = rows.float64(row, 14)
        endpoint.acknowledgement = rows.bytesOrNil(row, 20).flatMap {
            // Unreadable rules ask for no acknowledgement.
            try? AcknowledgementRules(storedJSON: $0)
        }
        endpoint.acknowledgement?.endpoint = nil
        let headers = rows.bytesOrNil(row, 21)
        endpoint.headers = headers.map(WebhookHeaders.names(of:)) ?? []
        endpoint.payload = rows.bool(row, 22) ? .thin : .full
        let tls = rows.bytesOrNil(row, 23)
        // Settings that are damaged are not shown; their deliveries fail.
        endpoint.tls = tls.flatMap { try? WebhookTLS(storedJSON: $0) }
        self.init(
            id: rows.identifier(row, 0), tenant: rows.text(row, 1), createdAt: rows.instant(row, 2),
            updatedAt: rows.instant(row, 3), revision: rows.int32(row, 4), endpoint: endpoint,
            disabledAt: rows.instantOrNil(row, 15),
            disabledReason: rows.textOrNil(row, 16).flatMap { DisabledReason(rawValue: $0) },
            failingSince: rows.instantOrNil(row, 17), publicKey: rows.text(row, 18),
            sealedKeys: rows.bytes(row, 19), sealedHeaders: headers, sealedTLS: tls)
    }

    /// The rules as finish_jobs.sql copies them to rows of jobs: with the endpoint's id.
    fileprivate var storedAcknowledgement: [UInt8]? {
        var rules = endpoint.acknowledgement
        rules?.endpoint = id
        return rules?.encode()
    }
}

extension JobSpec.Pair {
    /// Returns the members of a JSON object whose values are texts.
    static func pairs(of json: [UInt8]?) -> [JobSpec.Pair] {
        // PostgreSQL returns valid JSON only.
        guard let json, let members = (try? JSON.parse(json))?.members else { return [] }
        return members.map { JobSpec.Pair($0.name, $0.value.string ?? "") }
    }
}

extension Parameters {
    /// The parameters of create_webhook.sql.
    static func new(_ new: NewWebhook, node: NodeID) -> Parameters {
        var parameters = Parameters()
        parameters.append(new.record.id)
        parameters.append(text: new.record.tenant)
        parameters.append(new.record.createdAt)
        parameters.append(new.record.endpoint)
        parameters.append(text: new.record.publicKey)
        parameters.append(bytea: new.record.sealedKeys)
        parameters.append(text: new.idempotency?.route)
        parameters.append(text: new.idempotency?.key)
        parameters.append(bytea: new.idempotency?.fingerprint)
        parameters.append(node)
        parameters.append(int32: Int32(Limits.webhookCountMax))
        parameters.append(text: new.record.storedAcknowledgement)
        parameters.append(contentOf: new.record)
        parameters.append(bool: new.isOfOperator)
        return parameters
    }

    /// The parameters of edit_webhook.sql.
    static func edited(_ record: WebhookRecord) -> Parameters {
        var parameters = Parameters()
        parameters.append(record.id)
        parameters.append(int32: record.revision)
        parameters.append(record.endpoint)
        parameters.append(text: record.publicKey)
        parameters.append(bytea: record.sealedKeys)
        parameters.append(text: record.storedAcknowledgement)
        parameters.append(contentOf: record)
        return parameters
    }

    /// Appends what deliveries contain, besides the event: header fields, and whether the payload is thin;
    /// and the TLS settings of their receiver.
    private mutating func append(contentOf record: WebhookRecord) {
        append(text: record.sealedHeaders)
        append(bool: record.endpoint.payload == .thin)
        append(text: record.sealedTLS)
    }

    /// Appends the columns from `url` to `disable_after`, as create_webhook.sql and edit_webhook.sql take
    /// them.
    private mutating func append(_ endpoint: WebhookEndpoint) {
        append(text: endpoint.url)
        if let types = endpoint.filter.types {
            appendArray(.text, types) { $0.append(text: $1) }
        } else {
            appendNull()
        }
        append(text: endpoint.filter.session)
        if endpoint.filter.metadata.isEmpty {
            appendNull()
        } else {
            var writer = JSONWriter()
            writer.beginObject()
            for pair in endpoint.filter.metadata { writer.member(pair.name, pair.value) }
            writer.endObject()
            append(jsonb: writer.bytes)
        }
        append(text: endpoint.description)
        append(bool: endpoint.isEnabled)
        append(bool: endpoint.isOrdered)
        append(text: endpoint.format.rawValue)
        appendArray(.float64, endpoint.retryDelays) { $0.append(float64: $1) }
        append(float64: endpoint.disableAfter)
    }
}
