/// A page in the Prometheus text exposition format 0.0.4.
package struct PrometheusText: Sendable {
    /// Types of metrics with a single value.
    package enum Kind: String, Sendable { case counter, gauge }
    /// The page so far.
    package private(set) var text = ""

    /// Creates an empty page.
    package init() { text.reserveCapacity(16_384) }

    /// Adds a metric with one sample for each set of labels.
    package mutating func add(
        _ kind: Kind, _ name: String, _ help: String, _ samples: [(labels: [(String, String)], value: Double)]
    ) {
        begin(name, kind.rawValue, help)
        for sample in samples { line(name, sample.labels, sample.value) }
    }

    /// Adds a metric with one sample.
    package mutating func add(_ kind: Kind, _ name: String, _ help: String, _ value: some BinaryInteger) {
        add(kind, name, help, [([], Double(value))])
    }

    /// Adds a metric with one sample.
    package mutating func add(_ kind: Kind, _ name: String, _ help: String, _ value: Double) {
        add(kind, name, help, [([], value)])
    }

    /// Begins a histogram; `histogram` adds its samples.
    package mutating func beginHistogram(_ name: String, _ help: String) { begin(name, "histogram", help) }
    /// Adds one histogram. `counts`: number of values up to each of `bounds`, not cumulative; the last count
    /// is that of larger values.
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
