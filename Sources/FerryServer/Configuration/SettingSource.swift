import FerryCore
import Sys

/// Values of settings. Flags override the environment, which overrides the file that FERRY_CONFIG names.
/// Empty values are ignored.
package struct SettingSource: Sendable {
    private let values: [String: String]
    /// Unknown variables of the environment.
    package let unknown: [UnknownSetting]

    /// Reads all sources. Throws for unknown `FERRY_…` names in the file, unreadable files, empty secret
    /// files, and secrets that are set twice.
    package init(flags: [String: String], environment: [String: String]) throws(Configuration.Failure) {
        var values: [String: String] = [:]
        let files = [flags, environment].compactMap { $0["FERRY_CONFIG"] }
        if let path = files.first(where: { !$0.isEmpty }) {
            values = try Self.parse(file: path)
        }
        for source in [environment, flags] {
            for setting in Setting.all {
                if let value = source[setting.name], !value.isEmpty { values[setting.name] = value }
                guard setting.isSecret, let path = source[setting.name + "_FILE"], !path.isEmpty else {
                    continue
                }
                guard source[setting.name, default: ""].isEmpty else {
                    throw Configuration.Failure(
                        description: "\(setting.name) and \(setting.name)_FILE are both set. Set only one.")
                }
                values[setting.name] = try Self.readSecret(path, for: setting.name + "_FILE")
            }
        }
        self.values = values
        unknown = UnknownSetting.all(in: environment)
    }

    /// The value of a setting; `nil` if it is not set.
    package subscript(name: String) -> String? { values[name] }

    /// Parses lines of `NAME=value`; lines that begin with `#` are comments.
    private static func parse(file path: String) throws(Configuration.Failure) -> [String: String] {
        var values: [String: String] = [:]
        let known = Set(Setting.all.flatMap(\.names))
        // Swift treats CRLF as one character, which differs from "\n".
        let lines = try read(path, for: "FERRY_CONFIG").split(omittingEmptySubsequences: false) {
            $0 == "\n" || $0 == "\r\n"
        }
        for (index, line) in lines.enumerated() {
            let text = String(line).trimmed
            if text.isEmpty || text.hasPrefix("#") { continue }
            guard let equals = text.firstIndex(of: "=") else {
                throw Configuration.Failure(description: "\(path), line \(index + 1): expected NAME=value.")
            }
            let name = String(text[..<equals]).trimmed
            guard known.contains(name) else {
                let hint = UnknownSetting(name).nearest.map { " Did you mean \($0)?" } ?? ""
                throw Configuration.Failure(
                    description: "\(path), line \(index + 1): unknown setting \(name).\(hint)")
            }
            let value = String(text[text.index(after: equals)...]).trimmed
            if value.isEmpty { continue }
            if name.hasSuffix("_FILE") {
                values[String(name.dropLast(5))] = try readSecret(value, for: name)
            } else {
                values[name] = value
            }
        }
        return values
    }

    /// Returns the secret in a file. An empty file is an error: the default would mean another database or
    /// key.
    private static func readSecret(
        _ path: String, for name: String
    ) throws(Configuration.Failure) -> String {
        let secret = try read(path, for: name).trimmed
        guard !secret.isEmpty else {
            throw Configuration.Failure(description: "\(name): the file \(path) is empty.")
        }
        return secret
    }

    private static func read(_ path: String, for name: String) throws(Configuration.Failure) -> String {
        var bytes: [UInt8]
        do { bytes = try readFile(path, byteCountMax: 1 << 20) } catch {
            throw Configuration.Failure(description: "\(name): the file \(path) cannot be read: \(error).")
        }
        if bytes.starts(with: JSON.byteOrderMark) { bytes.removeFirst(JSON.byteOrderMark.count) }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Configuration.Failure(description: "\(name): the file \(path) is not UTF-8.")
        }
        return text
    }
}
