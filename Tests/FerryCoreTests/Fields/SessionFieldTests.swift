import FerryCore
import Testing

@Suite("Fields that jobs inherit from sessions")
struct SessionFieldTests {
    /// Collects the types of fields by name, also those of objects within.
    private struct FieldTypes: FieldVisitor {
        let isCollected: (FieldTraits) -> Bool
        var types: [String: Any.Type] = [:]

        static func of<Object: FieldObject>(
            _ type: Object.Type, where isCollected: @escaping (FieldTraits) -> Bool
        ) -> [String: Any.Type] {
            var (object, found) = (Object(), FieldTypes(isCollected: isCollected))
            object.fields(&found)
            return found.types
        }

        mutating func field<Value: FieldValue>(
            _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
            _ text: @autoclosure () -> String
        ) {
            if isCollected(traits) { types[name] = Value.self }
        }

        mutating func object<Object: FieldObject>(
            _ name: String, _ value: inout Object, _ traits: FieldTraits, _ text: @autoclosure () -> String
        ) { value.fields(&self) }

        mutating func object<Object: FieldObject>(
            _ name: String, _ value: inout Object?, _ traits: FieldTraits, _ text: @autoclosure () -> String
        ) {
            var object = Object()
            object.fields(&self)
        }
    }

    @Test("a field that a job inherits by its name has the same type in the session")
    func types() throws {
        let inherited = FieldTypes.of(JobSpec.self) { $0.inheritance == .session }
        let given = FieldTypes.of(SessionConfiguration.self) { _ in true }
        #expect(Set(["priority", "timeout_for_request", "low_speed_limit"]).isSubset(of: inherited.keys))
        for (name, type) in inherited {
            let own = try #require(given[name], "sessions have no field \(name)")
            #expect(
                ObjectIdentifier(own) == ObjectIdentifier(type),
                "\(name) is \(own) in sessions and \(type) in jobs")
        }
    }
}
