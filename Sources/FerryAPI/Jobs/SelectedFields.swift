internal import FerryCore

extension MemberSelection {
    /// Reads the parameter `fields`: names of members of a job, with a dot before the members of an object.
    /// Unknown names are a 422.
    init(fields value: String) throws(Problem) {
        self.init()
        let errors = ValidationErrors()
        let names = try listed("fields", value, countMax: Limits.selectedFieldCountMax)
        for (index, name) in names.enumerated() {
            switch ObjectShape.job.path(of: name) {
            case .success(let path): add(path)
            case .failure(let unknown):
                let hint = unknown.nearest.map { " Did you mean \($0)?" } ?? ""
                errors.add(
                    "#/fields/\(index)", "unknown_field", "A job has no field \(name.prefix(100)).\(hint)")
            }
        }
        guard errors.isEmpty else { throw Problem(InvalidFields(errors.all)) }
    }
}

/// Names of the members of an object of responses, from its schema in the OpenAPI document.
private struct ObjectShape {
    /// A name that the object does not have.
    struct UnknownName: Error {
        /// The name that was probably meant, or `nil`.
        let nearest: String?
    }

    static let job = ObjectShape(schema: .schema(ShownJob.schemaName))

    private let schema: JSON

    /// Returns the names of the levels of a dotted name.
    func path(of name: Substring) -> Result<[String], UnknownName> {
        var path: [String] = []
        var shapes = Self.objects(schema)
        var rest = name
        while true {
            let step = String(rest.prefix { $0 != "." })
            if let next = shapes.lazy.compactMap({ $0["properties"]?[step] }).first {
                path.append(step)
                guard step.utf8.count < rest.utf8.count else { return .success(path) }
                rest = rest.dropFirst(step.count + 1)
                shapes = Self.objects(next)
            } else if shapes.contains(where: Self.isMap), !rest.isEmpty {
                // The names of a map are the client's, and may have dots.
                return .success(path + [String(rest)])
            } else {
                let known = shapes.flatMap { $0["properties"]?.members?.map(\.name) ?? [] }
                let nearest = nearestName(to: step, in: known)
                return .failure(UnknownName(nearest: nearest.map { (path + [$0]).joined(separator: ".") }))
            }
        }
    }

    /// Returns the schemas of objects that a value may be.
    private static func objects(_ schema: JSON) -> [JSON] {
        if let reference = schema["$ref"]?.string {
            let name = reference.split(separator: "/").last.map { String($0) }
            return componentSchemas.first { $0.name == name }.map { objects($0.value) } ?? []
        }
        let choices = schema["oneOf"]?.array ?? schema["anyOf"]?.array
        return choices.map { $0.flatMap(objects) } ?? [schema]
    }

    /// Returns `true` for an object whose members have any names.
    private static func isMap(_ schema: JSON) -> Bool { schema["additionalProperties"]?.isObject == true }
}

extension JSON {
    fileprivate var isObject: Bool { members != nil }
}
