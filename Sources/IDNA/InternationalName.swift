internal import CIdn2

/// Names of hosts with characters beyond ASCII, in the ASCII form that the domain name system has.
public enum InternationalName {
    /// Returns the ASCII form of a name (UTS #46, non-transitional, as in WHATWG URL §3.3), or `nil` if it
    /// has none. The caller checks the characters and lengths of the labels.
    public static func ascii(_ name: String) -> String? {
        // libidn2 reads up to the first NUL.
        guard !name.utf8.contains(0) else { return nil }
        var labels: [String] = []
        for label in name.unicodeScalars.split(omittingEmptySubsequences: false, whereSeparator: isDot) {
            guard let ascii = ascii(label: String(label)) else { return nil }
            labels.append(ascii)
        }
        return labels.joined(separator: ".")
    }

    /// The full stops that UTS #46 maps to a dot.
    private static func isDot(_ scalar: Unicode.Scalar) -> Bool {
        ".\u{3002}\u{FF0E}\u{FF61}".unicodeScalars.contains(scalar)
    }

    /// Labels are converted one by one, because libidn2 would also apply its rules about hyphens to those
    /// that are ASCII already.
    private static func ascii(label: String) -> String? {
        if label.utf8.allSatisfy({ $0 < 0x80 }) { return label.lowercased() }
        switch mapped(label) {
        case .success(let ascii): return ascii
        case .failure(.disallowed): return symbolLabel(label)
        case .failure: return nil
        }
    }

    private enum Failure: Error { case disallowed, other }

    private static func mapped(_ label: String) -> Result<String, Failure> {
        let flags = CInt(IDN2_NONTRANSITIONAL.rawValue | IDN2_NFC_INPUT.rawValue)
        var output: UnsafeMutablePointer<CChar>?
        let result = idn2_to_ascii_8z(label, &output, flags)
        defer { idn2_free(output) }
        guard result == IDN2_OK.rawValue, let output else {
            return .failure(result == IDN2_DISALLOWED.rawValue ? .disallowed : .other)
        }
        return .success(String(cString: output))
    }

    /// Returns the ASCII form of a label with symbols such as ☃, which IDNA 2008 disallows and UTS #46 keeps
    /// (status `NV8`), or `nil` for other disallowed labels.
    private static func symbolLabel(_ label: String) -> String? {
        var kept = ""
        for scalar in label.lowercased().unicodeScalars where !scalar.properties.isVariationSelector {
            if scalar.isASCII {
                kept.unicodeScalars.append(scalar)
                continue
            }
            let own = punycode(String(scalar))
            switch mapped(String(scalar)) {
            case .success(own): kept.unicodeScalars.append(scalar)
            case .success(let ascii) where !ascii.hasPrefix(aceLabelPrefix): kept += ascii
            case .failure(.disallowed) where isSymbol(scalar): kept.unicodeScalars.append(scalar)
            default: return nil
            }
        }
        return kept.utf8.allSatisfy { $0 < 0x80 } ? kept : punycode(kept)
    }

    private static func isSymbol(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .otherSymbol, .mathSymbol, .modifierSymbol: true
        default: false
        }
    }
}

private let aceLabelPrefix = "xn--"

/// Returns the A-label of a label (RFC 3492 §6.3 and RFC 5890 §2.3.2.1).
private func punycode(_ label: String) -> String {
    let scalars = label.unicodeScalars.map(\.value)
    var output = scalars.filter { $0 < 0x80 }.map { UInt8($0) }
    var handled = output.count
    let basicCount = output.count
    if basicCount > 0 { output.append(UInt8(ascii: "-")) }
    var (next, delta, bias): (UInt32, UInt32, UInt32) = (128, 0, 72)
    while handled < scalars.count, let least = scalars.filter({ $0 >= next }).min() {
        delta += (least - next) * UInt32(handled + 1)
        next = least
        for scalar in scalars {
            if scalar < next { delta += 1 }
            guard scalar == next else { continue }
            appendInteger(delta, bias: bias, to: &output)
            bias = adaptedBias(delta, count: UInt32(handled + 1), isFirst: handled == basicCount)
            delta = 0
            handled += 1
        }
        delta += 1
        next += 1
    }
    return aceLabelPrefix + String(decoding: output, as: UTF8.self)
}

/// Appends a generalized variable-length integer (RFC 3492 §3.3).
private func appendInteger(_ integer: UInt32, bias: UInt32, to output: inout [UInt8]) {
    let digit = { (value: UInt32) in UInt8(value < 26 ? 97 + value : 22 + value) }
    var (rest, base): (UInt32, UInt32) = (integer, 36)
    while true {
        let threshold = base <= bias ? 1 : min(26, base - bias)
        if rest < threshold { break }
        output.append(digit(threshold + (rest - threshold) % (36 - threshold)))
        rest = (rest - threshold) / (36 - threshold)
        base += 36
    }
    output.append(digit(rest))
}

/// Returns the bias after an integer (RFC 3492 §6.1).
private func adaptedBias(_ delta: UInt32, count: UInt32, isFirst: Bool) -> UInt32 {
    var (delta, steps): (UInt32, UInt32) = (isFirst ? delta / 700 : delta / 2, 0)
    delta += delta / count
    while delta > 455 {
        delta /= 35
        steps += 36
    }
    return steps + 36 * delta / (delta + 38)
}
