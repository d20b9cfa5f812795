// Other sources of a download's bytes, and the number of segments.

/// Values of `mirrors` and `segments`.
struct DecodedSources {
    var mirrors: [String] = []
    var segmentCountMax = 1
}

extension JobDecoding {
    /// `request`: `nil` if it was invalid, so that only errors of these members are reported.
    func sources(
        _ fields: inout FieldReader, _ kind: JobKind?, _ request: DecodedRequest?
    ) -> DecodedSources {
        var sources = DecodedSources()
        sources.mirrors = mirrors(&fields, besides: request?.spec)
        sources.segmentCountMax =
            fields.integer("segments", in: 1...Int64(Limits.segmentCountMax)).map { Int($0) } ?? 1
        if sources.segmentCountMax > 1 { checkParts("segments", fields, kind, request) }
        if !sources.mirrors.isEmpty { checkParts("mirrors", fields, kind, request) }
        return sources
    }

    private func mirrors(_ fields: inout FieldReader, besides own: JobSpec.RequestSpec?) -> [String] {
        guard let values = fields.array("mirrors", countMax: Limits.mirrorCountMax) else { return [] }
        var mirrors: [String] = []
        for (index, value) in values.enumerated() {
            let place = "\(fields.pointer("mirrors"))/\(index)"
            guard let text = value.string else {
                errors.addWrongType(place, "a string", value)
                continue
            }
            do throws(WebURL.Failure) {
                let url = try WebURL.parse(text)
                if let reason = refusal(url) {
                    errors.add(place, "blocked_address", reason)
                } else if mirrors.contains(url.string) || url.string == own?.url {
                    errors.add(place, "duplicate", "This URL occurs twice.")
                } else if url.scheme == .http, own?.connection?.tls != nil {
                    errors.add(place, "invalid_combination", "With request.tls, mirrors are https URLs too.")
                } else {
                    mirrors.append(url.string)
                }
            } catch {
                errors.add(place, "invalid_value", error.message)
            }
        }
        return mirrors
    }

    /// Reports segments and mirrors unless the job is a download by GET that does not set ranges itself.
    private func checkParts(
        _ name: String, _ fields: FieldReader, _ kind: JobKind?, _ request: DecodedRequest?
    ) {
        if let kind, kind != .download {
            fields.addError(name, "invalid_combination", "Only a download can have \(name).")
        } else if let method = request?.spec.method, method != "GET" {
            fields.addError(name, "invalid_combination", "Only a GET request can have \(name).")
        } else if request?.spec.headers.contains(where: { Self.rangeHeaders.contains($0.name.lowercased()) })
            == true
        {
            fields.addError(
                name, "invalid_combination", "With \(name), the service itself decides about ranges.")
        } else if let coding = request?.spec.acceptEncoding, coding != .identity {
            fields.addError(
                name, "invalid_combination", "A file with \(name) is fetched without content codings.")
        }
    }

    private static let rangeHeaders: Set<String> = ["range", "if-range"]
}
