/// The Prometheus text exposition format 0.0.4.
package struct PrometheusText: Sendable {
    package enum Kind: String, Sendable { case counter, gauge }
    package private(set) var text = ""

    package init() { text.reserveCapacity(16_384) }

    /// A metric with one sample for each set of labels.
    package mutating func add(
        _ kind: Kind, _ name: String, _ help: String, _ samples: [(labels: [(String, String)], value: Double)]
    ) {
        begin(name, kind.rawValue, help)
        for sample in samples { line(name, sample.labels, sample.value) }
    }

    package mutating func add(_ kind: Kind, _ name: String, _ help: String, _ value: some BinaryInteger) {
        add(kind, name, help, [([], Double(value))])
    }

    package mutating func add(_ kind: Kind, _ name: String, _ help: String, _ value: Double) {
        add(kind, name, help, [([], value)])
    }

    /// `buckets`: upper bounds and counts, not cumulative; the last count is of what is above every bound.
    package mutating func beginHistogram(_ name: String, _ help: String) { begin(name, "histogram", help) }
    package mutating func histogram(
        _ name: String, labels: [(String, String)], bounds: [Double], counts: [UInt64], sum: Double
    ) {
        var total: UInt64 = 0
        for (index, count) in counts.enumerated() {
            total += count
            let bound = index < bounds.count ? number(bounds[index]) : "+Inf"
            line(name + "_bucket", labels + [("le", bound)], Double(total))
        }
        line(name + "_sum", labels, sum)
        line(name + "_count", labels, Double(total))
    }

    private mutating func begin(_ name: String, _ kind: String, _ help: String) {
        text += "# HELP \(name) \(escape(help, quotes: false))\n# TYPE \(name) \(kind)\n"
    }

    private mutating func line(_ name: String, _ labels: [(String, String)], _ value: Double) {
        text += name
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0)=\"\(escape($1, quotes: true))\"" }.joined(separator: ",") + "}"
        }
        text += " \(number(value))\n"
    }

    private func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : value.description
    }

    private func escape(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}
