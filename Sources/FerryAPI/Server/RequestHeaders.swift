internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// `Prefer: wait=N` (RFC 7240 §4.3) in seconds, at most `Limits.waitSecondsMax`; nil without one. What cannot
/// be read is ignored, as the RFC wants.
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

/// `Idempotency-Key`: a structured string in quotes, or the bare text that most clients send
/// (draft-ietf-httpapi-idempotency-key-header). Nil without one.
func idempotencyKey(_ fields: HTTPFields) throws(Problem) -> String? {
    let values = fields.all("Idempotency-Key")
    guard let value = values.first else { return nil }
    guard values.count == 1 else { throw Problem(.invalidHeader, "Idempotency-Key may be sent once.") }
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
            "Idempotency-Key has 1 to \(Limits.idempotencyKeyByteCountMax) visible ASCII characters.")
    }
    return key
}

/// The client's trace context when its `traceparent` is valid (W3C Trace Context §3.2), else a new trace; as
/// it is kept (`TraceContext`).
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

/// In version 00, the one that is sent.
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
    // Of a version that we do not know, the identifiers and the flag "sampled" are read, and said in ours
    // (§3.2.4).
    let identifiers = String(decoding: bytes[3..<52], as: UTF8.self)
    let flags = hexDecoded(String(decoding: bytes[53..<55], as: UTF8.self))?.first ?? 0
    return "00-\(identifiers)-0\(flags & 1)"
}

/// Trace identifiers must differ, not be unguessable: one seed from the system serves all (xoshiro256**).
private struct TraceNumbers {
    private var state: (UInt64, UInt64, UInt64, UInt64) = (
        .random(in: 1...UInt64.max), .random(in: 1...UInt64.max), .random(in: 1...UInt64.max),
        .random(in: 1...UInt64.max)
    )

    /// Never zero: an identifier of zeros is invalid.
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

/// Without spaces and tabs at either end.
func trimmed(_ text: Substring) -> String {
    let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
    guard let first = text.utf8.firstIndex(where: { !isSpace($0) }),
        let last = text.utf8.lastIndex(where: { !isSpace($0) })
    else { return "" }
    return String(text[first...last])
}

/// Whether a `Content-Type` is one of these. Text is UTF-8 (RFC 8259 §8.1): another `charset` is refused;
/// other parameters do not matter.
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

/// Bodies are read as they come: a `Content-Encoding` (RFC 9110 §8.4) is refused.
func needPlainBody(_ fields: HTTPFields) throws(Problem) {
    guard fields.contains("Content-Encoding") else { return }
    for value in fields.all("Content-Encoding") {
        for coding in value.split(separator: ",") where !trimmed(coding).isEmpty {
            guard trimmed(coding).lowercased() != "identity" else { continue }
            var problem = Problem(
                .unsupportedMediaType,
                "A body is read as it comes: send it without Content-Encoding, not as \(trimmed(coding)).")
            problem.fields.append(("Accept-Encoding", "identity"))
            throw problem
        }
    }
}
