import FerryCore
import Testing

@Suite("Objects of responses")
struct ShownObjectTests {
    private struct Parcel: ShownObject {
        static let summary = "A parcel."
        static let schemaName = "Parcel"

        var weight = 5
        var sender: String?
        var note: String?
        var isStored = false

        static func members(_ list: inout some MemberVisitor<Self>) {
            list.member("weight", \.weight, "Kilograms.", [.minimum(1)])
            list.member("sender", \.sender, "Name, or null.")
            list.optional("note", \.note, "Absent without a note.")
            list.object("size", named: "ParcelSize", "Its size.") { list in
                list.member("height", { $0.weight * 2 }, "Centimetres.")
            }
            list.include { Label(text: "to \($0.weight)") }
            list.described("place", Bool.self, "Written elsewhere.")
            list.stored("shelf", { $0.isStored ? 7 : nil })
        }
    }

    private struct Label: ShownObject {
        static let summary = "A label."
        static let schemaName = "Label"
        let text: String

        static func members(_ list: inout some MemberVisitor<Self>) {
            list.member("label", \.text, "Text.")
        }
    }

    @Test("an object is written with its members in the order of their declaration")
    func json() throws {
        #expect(
            text(Parcel()) == #"{"weight":5,"sender":null,"size":{"height":10},"label":"to 5"}"#)
        #expect(
            text(Parcel(sender: "a", note: "b", isStored: true))
                == #"{"weight":5,"sender":"a","note":"b","size":{"height":10},"label":"to 5","shelf":7}"#)
    }

    private func text(_ parcel: Parcel) -> String { String(decoding: parcel.shown(), as: UTF8.self) }

    @Test("the schema of an object has all described members and requires those that are always present")
    func schema() throws {
        let schemas = FieldSchemas()
        schemas.add(Parcel.self)
        schemas.add(Parcel.self)
        #expect(schemas.components.map(\.name) == ["Parcel", "ParcelSize"])
        let schema = try #require(schemas.components.first?.value)
        let names = schema["properties"]?.members?.map(\.name)
        #expect(names == ["weight", "sender", "note", "size", "label", "place"])
        let required = schema["required"]?.array?.compactMap(\.string)
        #expect(required == ["weight", "sender", "size", "label", "place"])
        let weight = schema["properties"]?["weight"]
        #expect(weight?["type"] == "integer" && weight?["minimum"] == .integer(1))
        #expect(weight?["description"] == "Kilograms.")
        #expect(schema["properties"]?["sender"]?["type"] == .array(["string", "null"]))
        #expect(schema["properties"]?["size"]?["$ref"] == "#/components/schemas/ParcelSize")
    }
}
