internal import FerryCore

/// An environment variable that begins like a setting but is unknown.
package struct UnknownSetting: Sendable, Equatable {
    /// Name of the variable.
    package let name: String
    /// Name of the setting that was probably meant, or `nil`.
    package let nearest: String?

    /// A warning for the operator. Never contains the value, which may be a secret.
    package var sentence: String {
        "Unknown setting \(name) is ignored." + (nearest.map { " Did you mean \($0)?" } ?? "")
    }

    init(_ name: String) {
        self.name = name
        nearest = nearestName(to: name, in: Setting.readNames)
    }

    /// Returns the unknown variables of the environment, sorted by name.
    package static func all(in environment: [String: String]) -> [UnknownSetting] {
        let known = Set(Setting.readNames)
        return environment.filter { name, value in
            name.hasPrefix("FERRY_") && !known.contains(name) && !isLink(name, value)
        }.keys.sorted().map { UnknownSetting($0) }
    }

    /// Returns `true` for variables that Kubernetes sets in all containers for a service named `ferry` or
    /// `ferry-…`, and that Docker sets for links.
    private static func isLink(_ name: String, _ value: String) -> Bool {
        name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
            || name.hasSuffix("_PORT") && value.contains("://")
            || name.firstMatch(of: /_PORT_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?$/) != nil
    }
}

extension Setting {
    /// Names of the variables that the setting is read from.
    var names: [String] { isSecret ? [name, name + "_FILE"] : [name] }

    /// Names of all variables that the service and its client read.
    fileprivate static let readNames =
        all.flatMap(\.names) + ["FERRY_CONFIG", "FERRY_URL", "FERRY_KEY", "FERRY_KEY_FILE"]
}
