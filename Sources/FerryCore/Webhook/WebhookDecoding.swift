extension WebhookEndpoint {
    /// Reads and validates an endpoint. Throws all errors at once. `mergedWith`: as for `FieldReader`;
    /// `refusal`: the egress policy's.
    package init(
        _ json: JSON, mergedWith patch: JSON? = nil, refusal: (WebURL) -> String?
    ) throws(InvalidFields) {
        let errors = ValidationErrors()
        let endpoint = withoutActuallyEscaping(refusal) { refusal in
            JobDecoding(
                errors: errors, node: NodeAbilities(), refusal: refusal, openResumeData: { _ in nil }
            ).webhookEndpoint(json, mergedWith: patch)
        }
        guard errors.isEmpty, let endpoint else { throw InvalidFields(errors.all) }
        self = endpoint
    }

    /// Returns this endpoint after a merge patch (RFC 7396), validated like a new one.
    package func merging(_ patch: JSON, refusal: (WebURL) -> String?) throws(InvalidFields) -> Self {
        guard case .object = patch else {
            throw InvalidFields("#", "wrong_type", "This must be an object, not \(patch.typeName).")
        }
        var writer = JSONWriter()
        writer.beginObject()
        writeMembers(into: &writer, isRedacted: false)
        writer.endObject()
        // Our own encoding, which is valid JSON.
        guard let shown = try? JSON.parse(writer.bytes) else { return self }
        return try Self(shown.merged(with: patch), mergedWith: patch, refusal: refusal)
    }
}

extension JobDecoding {
    fileprivate func webhookEndpoint(_ json: JSON, mergedWith patch: JSON?) -> WebhookEndpoint? {
        guard var fields = FieldReader(json, at: "#", errors, mergedWith: patch) else { return nil }
        if !fields.has("url") { fields.addError("url", "required", "An endpoint needs a url.") }
        let url = url(&fields, "url")
        var endpoint = WebhookEndpoint(url: url?.string ?? "")
        endpoint.filter = WebhookFilter(
            types: eventTypes(&fields), session: sessionFilter(&fields), metadata: metadata(&fields))
        endpoint.description = text(&fields, "description", byteCountMax: Limits.descriptionByteCountMax)
        endpoint.isEnabled = fields.bool("enabled") ?? true
        endpoint.isOrdered = fields.bool("ordered") ?? false
        endpoint.format = fields.choice("format", WebhookEndpoint.Format.self) ?? .standard
        endpoint.retryDelays = retryDelays(&fields)
        endpoint.disableAfter =
            fields.number(
                "disable_after", in: Limits.webhookDisableAfterMin...Limits.webhookDisableAfterMax)
            ?? WebhookEndpoint.standardDisableAfter
        endpoint.acknowledgement = acknowledgement(&fields)
        fields.finish()
        return endpoint
    }

    /// Reads the types of events; `nil` for all.
    private func eventTypes(_ fields: inout FieldReader) -> [String]? {
        let isEmpty = fields.value("events") == .array([])
        guard
            let names = fields.strings("events", countMax: Limits.webhookEventCountMax, byteCountMax: 64)
        else { return nil }
        if isEmpty {
            fields.addError("events", "invalid_value", "Name at least one event, or leave this out.")
        }
        let known = EventType.allCases.map(\.rawValue)
        for (index, name) in names.enumerated() where name != "*" && !known.contains(name) {
            errors.add(
                "\(fields.pointer("events"))/\(index)", "invalid_value",
                "This must be * or one of: \(known.joined(separator: ", ")).")
        }
        return names.contains("*") ? nil : names
    }

    private func sessionFilter(_ fields: inout FieldReader) -> String? {
        let name = fields.string("session", isNullable: true)
        if let name, !SessionName.isValid(name) {
            fields.addError(
                "session", "invalid_value", "A session's name has 1 to 128 letters, digits and -._~:@.")
        }
        return name
    }

    private func retryDelays(_ fields: inout FieldReader) -> [Double] {
        guard var retry = fields.object("retry") else { return WebhookEndpoint.standardRetryDelays }
        defer { retry.finish() }
        guard let values = retry.array("delays", countMax: Limits.webhookDelayCountMax) else {
            return WebhookEndpoint.standardRetryDelays
        }
        return values.enumerated().map { index, value in
            let place = "\(retry.pointer("delays"))/\(index)"
            guard let delay = value.double else {
                errors.addWrongType(place, "a number", value)
                return 1
            }
            if !(1...Limits.webhookDelayMax).contains(delay) {
                errors.add(
                    place, "out_of_range", "This must be from 1 to \(Int(Limits.webhookDelayMax)) seconds.")
            }
            return delay
        }
    }
}
