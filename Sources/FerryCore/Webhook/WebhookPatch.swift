extension WebhookRecord {
    /// Applies a merge patch (RFC 7396) to the endpoint, its stored header fields and TLS settings. `node`:
    /// reads certificates. `refusal`: the egress policy's; `seal`: decrypts and encrypts the secret values.
    /// Throws all errors at once.
    ///
    /// A client that may change an endpoint may not read the values of its header fields, so they must not go
    /// to another receiver: with a URL of another origin, or with other authorities, the patch gives each
    /// field again or removes it.
    public mutating func merge(
        _ patch: JSONView, _ seal: SecretSeal, node: NodeAbilities = NodeAbilities(),
        refusal: @escaping (EndpointAddress) -> String?
    ) throws(InvalidFields) {
        let before = endpoint.url
        let changesHeaders = patch["headers"] != nil || patch["header_fields"] != nil
        if changesHeaders {
            // Fields whose values cannot be decrypted cannot be sent: only those of the patch are left.
            endpoint.headers = sealedHeaders.flatMap { WebhookHeaders.opened($0, seal) } ?? []
        }
        let context = FieldContext(node: node, refusal: refusal)
        FieldDecoder.decode(patch, into: &endpoint, at: "#", .patch, context)
        let hasOtherAuthorities = endpoint.tls?.authorities.text != nil
        if keepsHeaders(patch) {
            if !isSameOrigin(endpoint.url, before) {
                context.errors.add(
                    "#/url", "invalid_combination",
                    "The endpoint has header fields for its own receiver; for another one, give others or "
                        + "null.")
            }
            if hasOtherAuthorities {
                context.errors.add(
                    "#/tls/ca", "invalid_combination",
                    "The endpoint has header fields for a receiver of other authorities; give them again or "
                        + "null.")
            }
        }
        if patch["tls"] != nil, !hasOtherAuthorities { keepAuthorities(seal, context) }
        guard context.errors.isEmpty else { throw InvalidFields(context.errors.all) }
        if changesHeaders { sealedHeaders = WebhookHeaders.stored(endpoint.takeHeaders(), seal) }
        if patch["tls"] != nil { sealedTLS = endpoint.takeTLS()?.stored(seal) }
    }

    /// Reads the text of the authorities that the patched settings still have.
    private mutating func keepAuthorities(_ seal: SecretSeal, _ context: FieldContext) {
        guard endpoint.tls?.authorities.isSet == true else { return }
        // The only errors: damage, or encryption with another key.
        let known = sealedTLS.flatMap { try? WebhookTLS(storedJSON: $0, opening: seal) }
        endpoint.tls?.authorities.text = known?.authorities.text
        guard known?.authorities.text == nil else { return }
        context.errors.add(
            "#/tls/ca", "required", "The stored authorities cannot be decrypted; give them again or null.")
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
