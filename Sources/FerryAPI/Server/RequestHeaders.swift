internal import FerryCore
internal import HTTPServer
internal import OpenSSL
internal import Synchronization

/// Returns the seconds of `Prefer: wait=N` (RFC 7240 §4.3), at most `Limits.waitSecondsMax`, or `nil` without
/// this preference. Malformed preferences are ignored (RFC 7240 §2).
func preferredWait(_ fields: HTTPFields) -> Double? {
    for value in fields.all("Prefer") {
        for preference in value.split(separator: ",") {
            let parts = preference.prefix { $0 != ";" }.split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, trimmed(parts[0]).lowercased() == "wait" else { continue }
            var text = trimmed(parts[1])
            if text.count >= 2, text.hasPrefix("\""), text.hasSuffix("\"") {
                text = String(text.dropFirst().dropLast())
            }
            if let seconds = Int(text), seconds >= 0 { return min(Double(seconds), Limits.waitSecondsMax) }
        }
    }
    return nil
}

/// Whether the client wants the address of a content in place of its bytes (`Prefer: redirect`).
func prefersRedirect(_ fields: HTTPFields) -> Bool {
    fields.all("Prefer").contains { value in
        value.split(separator: ",").contains { trimmed($0).lowercased() == "redirect" }
    }
}

extension RequestContext {
    /// Returns the request's `Idempotency-Key` with its tenant and the fingerprint of the request, or `nil`
    /// without the field. The fingerprint ignores the order of members, white space and escapes of the body.
    /// It has the body as given, not its effective values: a session may change between a request and its
    /// repetition.
    ///
    /// `documents`: the body, or the jobs of a batch; none if the body has no fields.
    func idempotency(_ documents: [JSONView] = []) throws(Problem) -> Submission.Idempotency? {
        guard let key = try idempotencyKey(fields) else { return nil }
        let route = "\(head.method) \(head.path)"
        var writer = JSONWriter()
        writer.beginArray()
        for document in documents { writer.canonical(document) }
        writer.endArray()
        var digest = Digest(.sha256)
        digest.update(Array("\(route)\n".utf8))
        digest.update(writer.bytes)
        return Submission.Idempotency(tenant: tenant, route: route, key: key, fingerprint: digest.finish())
    }
}

/// Returns the value of `Idempotency-Key`, or `nil` without the field. The value is a string in quotes
/// (draft-ietf-httpapi-idempotency-key-header), or the bare text that most clients send.
private func idempotencyKey(_ fields: HTTPFields) throws(Problem) -> String? {
    let values = fields.all("Idempotency-Key")
    guard let value = values.first else { return nil }
    guard values.count == 1 else { throw Problem(.invalidHeader, "Idempotency-Key occurs more than once.") }
    var key = trimmed(value[...])
    if key.utf8.first == UInt8(ascii: "\"") {
        guard key.utf8.count >= 2, key.utf8.last == UInt8(ascii: "\""),
            !key.dropFirst().dropLast().contains("\"")
        else { throw Problem(.invalidHeader, "Idempotency-Key has an opening quote without a closing one.") }
        key = String(key.dropFirst().dropLast())
    }
    guard (1...Limits.idempotencyKeyByteCountMax).contains(key.utf8.count),
        key.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
    else {
        throw Problem(
            .invalidHeader,
            "Idempotency-Key must have 1 to \(Limits.idempotencyKeyByteCountMax) visible ASCII characters.")
    }
    return key
}

/// Returns the client's trace context if its `traceparent` is valid (W3C Trace Context §3.2), else a new one,
/// in the form that the store keeps (`TraceContext`).
func traceContext(_ fields: HTTPFields) -> String {
    let values = fields.all("traceparent")
    if values.count == 1, let valid = validTraceparent(values[0]) {
        return TraceContext.text(parent: valid, state: TraceContext.state(fields.all("tracestate")))
    }
    let words = traceNumbers.withLock { numbers in (numbers.next(), numbers.next(), numbers.next()) }
    var text = Array("00-".utf8)
    text.reserveCapacity(55)
    appendHex(words.0, to: &text)
    appendHex(words.1, to: &text)
    text.append(UInt8(ascii: "-"))
    appendHex(words.2, to: &text)
    text.append(contentsOf: "-01".utf8)
    return String(decoding: text, as: UTF8.self)
}

/// Returns a valid `traceparent` as version 00, which Ferry sends, or `nil` if `text` is invalid.
func validTraceparent(_ text: String) -> String? {
    let bytes = Array(text.utf8)
    guard bytes.count >= 55, bytes[2] == 45, bytes[35] == 45, bytes[52] == 45 else { return nil }
    let parts = [0..<2, 3..<35, 36..<52, 53..<55]
    for part in parts {
        guard bytes[part].allSatisfy(isLowerHexDigit) else { return nil }
    }
    let isZero: (Range<Int>) -> Bool = { bytes[$0].allSatisfy { $0 == 48 } }
    guard !isZero(3..<35), !isZero(36..<52), !bytes.starts(with: "ff".utf8) else { return nil }
    if bytes.count > 55 {
        guard !bytes.starts(with: "00".utf8), bytes[55] == 45 else { return nil }
    }
    if bytes.starts(with: "00".utf8) { return text }
    // Of a later version, only the identifiers and the flag "sampled" are used (§3.2.4).
    let identifiers = String(decoding: bytes[3..<52], as: UTF8.self)
    let flags = hexDecoded(String(decoding: bytes[53..<55], as: UTF8.self))?.first ?? 0
    return "00-\(identifiers)-0\(flags & 1)"
}

/// Generates trace identifiers (xoshiro256**, seeded by the system). They must be unique, but may be
/// guessable.
private struct TraceNumbers {
    private var state: (UInt64, UInt64, UInt64, UInt64) = (
        .random(in: 1...UInt64.max), .random(in: 1...UInt64.max), .random(in: 1...UInt64.max),
        .random(in: 1...UInt64.max)
    )

    /// Returns a number other than 0: an identifier of zeros is invalid.
    mutating func next() -> UInt64 {
        let mixed = rotated(state.1 &* 5, 7) &* 9
        let shifted = state.1 << 17
        state.2 ^= state.0
        state.3 ^= state.1
        state.1 ^= state.2
        state.0 ^= state.3
        state.2 ^= shifted
        state.3 = rotated(state.3, 45)
        return mixed == 0 ? 1 : mixed
    }

    private func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }
}

private let traceNumbers = Mutex(TraceNumbers())

private func appendHex(_ value: UInt64, to text: inout [UInt8]) {
    for shift in stride(from: UInt64(60), through: 0, by: -4) {
        text.append(hexDigit(UInt8(truncatingIfNeeded: value >> shift & 15)))
    }
}

/// Returns `text` without spaces and tabs at both ends.
func trimmed(_ text: Substring) -> String {
    let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
    guard let first = text.utf8.firstIndex(where: { !isSpace($0) }),
        let last = text.utf8.lastIndex(where: { !isSpace($0) })
    else { return "" }
    return String(text[first...last])
}

/// Returns `true` if `Content-Type` is one of these types. A `charset` other than UTF-8 (RFC 8259 §8.1) is a
/// 415; other parameters are ignored.
func isMediaType(_ fields: HTTPFields, _ types: [String]) throws(Problem) -> Bool {
    guard let value = fields["Content-Type"] else { return false }
    if types.contains(value) { return true }
    let parts = value.split(separator: ";", omittingEmptySubsequences: false)
    guard types.contains(trimmed(parts[0]).lowercased()) else { return false }
    for parameter in parts.dropFirst() {
        let pair = parameter.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard pair.count == 2, trimmed(pair[0]).lowercased() == "charset" else { continue }
        guard ["utf-8", "\"utf-8\""].contains(trimmed(pair[1]).lowercased()) else {
            throw Problem(.unsupportedMediaType, "charset must be utf-8; it is \(trimmed(pair[1])).")
        }
    }
    return true
}

/// Throws a 415 if the body has a `Content-Encoding` (RFC 9110 §8.4): Ferry does not decode request bodies.
func needPlainBody(_ fields: HTTPFields) throws(Problem) {
    guard fields.contains("Content-Encoding") else { return }
    for value in fields.all("Content-Encoding") {
        for coding in value.split(separator: ",") where !trimmed(coding).isEmpty {
            guard trimmed(coding).lowercased() != "identity" else { continue }
            var problem = Problem(
                .unsupportedMediaType,
                "Content-Encoding \(trimmed(coding)) is not supported: send the body without this field."
            )
            problem.fields.append(("Accept-Encoding", "identity"))
            throw problem
        }
    }
}

extension RequestContext {
    /// Whether the client prefers a media type to JSON: `Accept` lists it first (RFC 9110 §12.5.1; weights
    /// are ignored).
    func prefers(_ type: String) -> Bool {
        let types = (fields["Accept"] ?? "").split(separator: ",").map { range in
            range.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
        }
        guard let place = types.firstIndex(of: type) else { return false }
        return types.firstIndex(of: "application/json").map { place < $0 } ?? true
    }
}
