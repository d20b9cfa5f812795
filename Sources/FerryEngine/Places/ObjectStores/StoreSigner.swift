import Curl
import FerryCore
import OpenSSL

/// A key that an object store knows.
struct AccessKey: Sendable, Equatable {
    let accessKeyID: String
    let secretAccessKey: String
    /// Token of a temporary key; `nil` for other keys.
    let sessionToken: String?
}

/// Signs requests to an S3-compatible store: Signature Version 4 of AWS for the service `s3`, in header
/// fields, or in the query of a URL. A pure value.
///
/// Signs the method, the path, the query, `Host` and all `x-amz-*` fields. All other fields may change after
/// the signature.
struct StoreSigner: Sendable {
    /// Payload hash of a request whose body is not covered by the signature. Only for https.
    static let unsignedPayload = "UNSIGNED-PAYLOAD"
    /// Payload hash of a request without a body.
    static let emptyPayload = hexEncoded(Digest.of([]))

    private static let algorithm = "AWS4-HMAC-SHA256"
    /// Fields that `fields` returns, in lower case. A value that the request has for them is not signed.
    private static let ownFields: Set<String> = [
        "x-amz-date", "x-amz-content-sha256", "x-amz-security-token",
    ]

    let region: String
    let credential: AccessKey

    /// Returns the fields that sign a request: `x-amz-date`, `x-amz-content-sha256`, `x-amz-security-token`
    /// if the key has a token, and `Authorization`. The request must not have fields of these names.
    ///
    /// `headers`: all other fields of the request. `payloadHash`: the SHA-256 of the body in hexadecimal, or
    /// `unsignedPayload`. `date`: the time, as the clock of the store tells it.
    ///
    /// Servers decode the path and the query and encode them again before they check the signature, or use
    /// both as sent. Both readings agree if only unreserved bytes (RFC 3986 §2.3) are literal, `/` in the
    /// path, and `&` and `=` in the query. For another URL, the signature is the one of the first reading.
    func fields(
        method: String, url: WebURL, headers: [TransferRequest.Header], payloadHash: String,
        at date: Timestamp
    ) -> [TransferRequest.Header] {
        let time = date.basicText
        var added = [
            TransferRequest.Header("x-amz-date", time),
            TransferRequest.Header("x-amz-content-sha256", payloadHash),
        ]
        if let token = credential.sessionToken { added.append(.init("x-amz-security-token", token)) }
        let signed = SignedFields(
            headers.filter { !Self.ownFields.contains($0.name.lowercased()) } + added, host: url)
        let signature = signature(of: canonicalRequest(method, url, signed, payloadHash), at: time)
        let authorization =
            "\(Self.algorithm) Credential=\(credential.accessKeyID)/\(scope(at: time)), "
            + "SignedHeaders=\(signed.names), Signature=\(signature)"
        return added + [.init("Authorization", authorization)]
    }

    /// Returns the URL of an object with a signature in its query, with which a client without a key gets the
    /// object for so many seconds. `query`: percent-encoded parameters; empty for none.
    func presignedURL(_ url: WebURL, query: String, seconds: Int, at date: Timestamp) -> String? {
        let time = date.basicText
        let names = SignedFields([], host: url).names
        var parameters = query.isEmpty ? [] : [query]
        parameters += [
            "X-Amz-Algorithm=\(Self.algorithm)",
            "X-Amz-Credential=\(percentEncoded("\(credential.accessKeyID)/\(scope(at: time))"))",
            "X-Amz-Date=\(time)", "X-Amz-Expires=\(seconds)", "X-Amz-SignedHeaders=\(names)",
        ]
        if let token = credential.sessionToken {
            parameters.append("X-Amz-Security-Token=\(percentEncoded(token))")
        }
        let text = "\(url.string)?\(parameters.joined(separator: "&"))"
        // `nil`: the parameters make the URL too long.
        guard let unsigned = try? WebURL.parse(text) else { return nil }
        let request = canonicalRequest(
            "GET", unsigned, SignedFields([], host: url), Self.unsignedPayload)
        return "\(text)&X-Amz-Signature=\(signature(of: request, at: time))"
    }

    /// The scope of a signature: the day, the region and the service.
    private func scope(at time: String) -> String {
        [String(time.prefix(8)), region, "s3", "aws4_request"].joined(separator: "/")
    }

    private func signature(of request: [UInt8], at time: String) -> String {
        let scope = scope(at: time)
        let text = [Self.algorithm, time, scope, hexEncoded(Digest.of(request))]
        // Each part of the scope derives the next key.
        let key = scope.split(separator: "/").reduce(Array("AWS4\(credential.secretAccessKey)".utf8)) {
            hmacSHA256(key: $0, message: Array($1.utf8))
        }
        return hexEncoded(hmacSHA256(key: key, message: Array(text.joined(separator: "\n").utf8)))
    }

    private func canonicalRequest(
        _ method: String, _ url: WebURL, _ signed: SignedFields, _ payloadHash: String
    ) -> [UInt8] {
        var text = Array("\(method)\n\(canonical(url.path[...], keeping: "/"))\n".utf8)
        text += Array("\(canonicalQuery(url.query ?? ""))\n".utf8)
        text += signed.lines
        text += Array("\n\(signed.names)\n\(payloadHash)".utf8)
        return text
    }
}

/// The fields that a signature covers, in the order of their names.
private struct SignedFields {
    /// Names in lower case, separated by semicolons.
    let names: String
    /// A line `name:value` for each name. The values of a repeated field are separated by commas.
    let lines: [UInt8]

    /// `url`: the one whose host is sent if the request has no `Host` field of its own.
    init(_ headers: [TransferRequest.Header], host url: WebURL) {
        var values: [String: [UInt8]] = [:]
        for header in headers {
            let name = header.name.lowercased()
            guard name.hasPrefix("x-amz-") || name == "host" else { continue }
            let value = collapsed(header.octets)
            values[name] = values[name].map { $0 + [UInt8(ascii: ",")] + value } ?? value
        }
        // libcurl sends the port only if it is not the default one.
        let port = url.port == url.scheme.defaultPort ? "" : ":\(url.port)"
        values["host"] = values["host"] ?? Array((url.host + port).utf8)
        let sorted = values.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        names = sorted.map(\.key).joined(separator: ";")
        lines = sorted.flatMap { Array("\($0.key):".utf8) + $0.value + [UInt8(ascii: "\n")] }
    }
}

extension TransferRequest.Header {
    /// The value as it is sent.
    fileprivate var octets: [UInt8] {
        hasOctets ? value.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) } : Array(value.utf8)
    }
}

/// Returns a field's value without spaces at its ends, and with one space for each run of spaces.
private func collapsed(_ value: [UInt8]) -> [UInt8] {
    let words = value.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    return Array(words.joined(separator: [UInt8(ascii: " ")]))
}

/// Returns the parameters of a query, encoded anew and sorted by name and value. A name without `=` has an
/// empty value.
private func canonicalQuery(_ query: String) -> String {
    let parameters = query.split(separator: "&").map { parameter in
        let parts = parameter.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        // Servers read a plus sign in a query as a space.
        let texts = parts.map { canonical($0.replacing("+", with: " ")[...], keeping: "") }
        return (name: texts[0], value: texts.count > 1 ? texts[1] : "")
    }
    let sorted = parameters.sorted { a, b in
        a.name == b.name
            ? a.value.utf8.lexicographicallyPrecedes(b.value.utf8)
            : a.name.utf8.lexicographicallyPrecedes(b.name.utf8)
    }
    return sorted.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
}

/// Returns a percent-encoded text with all bytes encoded except the unreserved ones (RFC 3986 §2.3) and those
/// of `kept`. A `%` without two digits counts as that character.
private func canonical(_ text: Substring, keeping kept: String) -> String {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
        var byte = byte
        if byte == UInt8(ascii: "%"), let decoded = hexDecoded(String(Substring(rest.prefix(2)))),
            let value = decoded.first
        {
            byte = value
            rest = rest.dropFirst(2)
        }
        if isUnreserved(byte) || kept.utf8.contains(byte) {
            bytes.append(byte)
        } else {
            appendPercentEncoded(byte, to: &bytes)
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}

private func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
    default: "-._~".utf8.contains(byte)
    }
}

extension Timestamp {
    /// The instant in the basic format of ISO 8601, in UTC and whole seconds: `20130524T000000Z`.
    fileprivate var basicText: String {
        description.prefix(19).filter { $0 != "-" && $0 != ":" } + "Z"
    }
}
