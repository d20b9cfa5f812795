extension WebhookRecord {
    /// Applies a merge patch (RFC 7396) to the endpoint and its stored header fields. `refusal`: the egress
    /// policy's; `seal`: decrypts and encrypts the fields' values. Throws all errors at once.
    ///
    /// A client that may change an endpoint may not read the values of its header fields, so they must not go
    /// to another receiver: with a URL of another origin, the patch gives each field again or removes it.
    package mutating func merge(
        _ patch: JSONView, _ seal: SecretSeal, refusal: @escaping (WebURL) -> String?
    ) throws(InvalidFields) {
        let before = endpoint.url
        let changesHeaders = patch["headers"] != nil || patch["header_fields"] != nil
        if changesHeaders {
            // Fields whose values cannot be decrypted cannot be sent: only those of the patch are left.
            endpoint.headers = sealedHeaders.flatMap { WebhookHeaders.opened($0, seal) } ?? []
        }
        let context = FieldContext(refusal: refusal)
        FieldDecoder.decode(patch, into: &endpoint, at: "#", .patch, context)
        if keepsHeaders(patch), !isSameOrigin(endpoint.url, before) {
            context.errors.add(
                "#/url", "invalid_combination",
                "The endpoint has header fields for its own receiver; for another one, give others or null.")
        }
        guard context.errors.isEmpty else { throw InvalidFields(context.errors.all) }
        if changesHeaders { sealedHeaders = WebhookHeaders.stored(endpoint.takeHeaders(), seal) }
    }

    /// Returns `true` if a header field has the value that it had before `patch`.
    private func keepsHeaders(_ patch: JSONView) -> Bool {
        // The list is replaced as a whole.
        guard patch["header_fields"] == nil else { return false }
        let given = Set((patch["headers"]?.members ?? []).map { $0.name.lowercased() })
        return !endpoint.headers.allSatisfy { given.contains($0.name.lowercased()) }
    }
}

/// Returns `false` also if a text is no URL.
private func isSameOrigin(_ a: String, _ b: String) -> Bool {
    guard let a = try? WebURL.parse(a), let b = try? WebURL.parse(b) else { return false }
    return a.isSameOrigin(as: b)
}
