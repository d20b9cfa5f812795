import FerryCore
import Testing

@Suite("JSON")
struct JSONTests {
    private static func random(_ random: inout SeededRandom, depth: Int) -> JSON {
        switch Int.random(in: 0..<(depth > 0 ? 8 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2: return .integer(Int64.random(in: Int64.min...Int64.max, using: &random))
        case 3: return .number(Double.random(in: -1e9...1e9, using: &random) + 0.25)
        case 4, 5: return .string(text(&random))
        case 6:
            return .array(
                (0..<Int.random(in: 0..<4, using: &random)).map { _ in Self.random(&random, depth: depth - 1)
                })
        default:
            return .object(
                (0..<Int.random(in: 0..<12, using: &random)).map {
                    JSON.Member("\($0)" + text(&random), Self.random(&random, depth: depth - 1))
                })
        }
    }

    private static func text(_ random: inout SeededRandom) -> String {
        let scalars: [Unicode.Scalar] = [
            "a", "\"", "\\", "\n", "\u{0}", "\u{1f}", "é", "世", "🚢", "/", "\u{7f}",
        ]
        var text = ""
        for _ in 0..<Int.random(in: 0..<6, using: &random) {
            text.unicodeScalars.append(scalars.randomElement(using: &random) ?? "x")
        }
        return text
    }

    private static func written(_ value: JSON) -> [UInt8] {
        var writer = JSONWriter()
        writer.value(value)
        return writer.bytes
    }

    @Test("a written value is read back unchanged", arguments: UInt64(0)..<200)
    func roundTrip(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let value = Self.random(&random, depth: 4)
        #expect(try JSON.parse(Self.written(value)) == value)
    }

    @Test("each character that JSON escapes is escaped wherever it is in a text", arguments: 0..<20)
    func escapes(length: Int) throws {
        let special = (0..<0x20).map { UInt8($0) } + [UInt8(ascii: "\""), UInt8(ascii: "\\")]
        for byte in special + [0x20, 0x21, 0x23, 0x5B, 0x5D, 0x7F] {
            for place in 0...length {
                var bytes = Array(repeating: UInt8(ascii: "a"), count: length + 1)
                bytes[place] = byte
                let text = String(decoding: bytes, as: UTF8.self)
                let value = JSON.object([JSON.Member(text, .string("é" + text))])
                let written = Self.written(value)
                let isEscaped = written.count > 2 * length + 11
                #expect(isEscaped == special.contains(byte), "\(byte) at \(place)")
                #expect(try JSON.parse(written) == value)
            }
        }
    }

    @Test("a truncated text is rejected", arguments: UInt64(0)..<20)
    func truncation(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let text = Self.written(.array([Self.random(&random, depth: 3), .string("end")]))
        for count in 0..<text.count {
            #expect(throws: JSON.SyntaxError.self) { try JSON.parse(Array(text.prefix(count))) }
        }
    }

    @Test("randomly changed bytes never crash the parser", arguments: UInt64(0)..<50)
    func mutation(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var text = Self.written(Self.random(&random, depth: 4)) + [0x20]
        for _ in 0..<20 {
            text[Int.random(in: 0..<text.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            _ = try? JSON.parse(text)
        }
    }

    @Test(
        "a text that is not UTF-8 is rejected",
        arguments: [[0xC3], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0x80]]
            as [[UInt8]])
    func invalidUTF8(_ bytes: [UInt8]) {
        let quote = UInt8(ascii: "\"")
        #expect(throws: JSON.SyntaxError.self) { try JSON.parse([quote] + bytes + [quote]) }
        #expect(throws: JSON.SyntaxError.self) {
            try JSON.parse([quote] + Array("\\n".utf8) + bytes + [quote])
        }
    }

    @Test(
        "a text that RFC 8259 forbids is rejected",
        arguments: [
            "", " ", "{", "}", "[1,]", "{\"a\":1,}", "{a:1}", "01", "-", "1.", ".5", "1e", "+1", "NaN",
            "Infinity",
            "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\t\"", "tru",
            "nulll", "1 2",
            "{\"a\":1,\"a\":2}", "1e999", "[", "\"", "'a'", "{\"a\"}", "{\"a\":}", "[1 2]", "1\u{feff}",
            "\u{feff}\u{feff}1",
        ])
    func forbidden(_ text: String) {
        #expect(throws: JSON.SyntaxError.self) { try JSON.parse(Array(text.utf8)) }
    }

    @Test("nesting beyond the limit is rejected")
    func depth() throws {
        let deep = [UInt8](repeating: UInt8(ascii: "["), count: 100_000)
        #expect(throws: JSON.SyntaxError.self) { try JSON.parse(deep) }
        let fits = String(repeating: "[", count: 60) + String(repeating: "]", count: 60)
        #expect(throws: Never.self) { try JSON.parse(Array(fits.utf8)) }
    }

    @Test("the number of values is limited for one text and for several together")
    func count() throws {
        let text = Array(#"[1,[],{"a":{},"b":"c"}]"#.utf8)
        var left = 12
        for after in [6, 0] {
            _ = try JSONView(parsing: text, valuesLeft: &left)
            #expect(left == after)
        }
        for tooFew in 0..<6 {
            left = tooFew
            do throws(JSON.SyntaxError) {
                _ = try JSONView(parsing: text, valuesLeft: &left)
                Issue.record("\(tooFew) values are enough")
            } catch {
                #expect(error.reason.hasPrefix("too many values") && left == 0)
            }
        }
    }

    @Test("numbers and escapes are parsed")
    func values() throws {
        let read = try JSON.parse(
            Array(#"[9223372036854775807,-0,1.5e3,0.25,9223372036854775808,"\ud83d\udea2\/"]"#.utf8))
        #expect(read.array?[0] == .integer(.max) && read.array?[3] == .number(0.25))
        #expect(
            read.array?.prefix(5).compactMap(\.double)
                == [9_223_372_036_854_775_808, 0, 1_500, 0.25, 9_223_372_036_854_775_808])
        #expect(read.array?[5] == .string("🚢/"))
    }

    @Test(
        "a number is written with the digits that were read",
        arguments: [
            "0", "-0", "7", "-7", "9223372036854775807", "9223372036854775808", "18446744073709551615",
            "-9223372036854775809", "1.0", "1.50", "0.1", "0.12345678901234567890123", "1e2", "1E+2", "1e-7",
            "1e20", "123456789012345678901234567890", "4.9e-324", "1e-999", "-0.0",
        ])
    func numbers(_ text: String) throws {
        let array = Array("[\(text)]".utf8)
        #expect(Self.written(try JSON.parse(array)) == array)
    }

    @Test("names are equal only if their bytes are", arguments: [0, 20])
    func names(_ others: Int) throws {
        let more = (0..<others).map { #""n\#($0)":0,"# }.joined()
        let json = try JSON.parse(Array("{\(more)\"\u{E9}\":1,\"e\u{301}\":2}".utf8))
        #expect(json["\u{E9}"] == .integer(1) && json["e\u{301}"] == .integer(2))
        #expect(throws: JSON.SyntaxError.self) {
            try JSON.parse(Array("{\(more)\"\u{E9}\":1,\"\u{E9}\":2}".utf8))
        }
        let patched = json.merged(with: .object([.init("e\u{301}", .integer(3))]))
        #expect(patched["\u{E9}"] == .integer(1) && patched["e\u{301}"] == .integer(3))
    }

    @Test("a member is found by its name, also if the text escapes it")
    func members() throws {
        let text = #"{"a":{"b":1},"ab":2,"\u0061c":3,"":4,"é":[{"d":5}]}"#
        let json = try JSONView(parsing: Array(text.utf8))
        #expect(json["a"]?["b"]?.integer == 1 && json["ab"]?.integer == 2 && json["ac"]?.integer == 3)
        #expect(json[""]?.integer == 4 && json["é"] != nil && json["b"] == nil && json["abc"] == nil)
        #expect(json["ab"]?["a"] == nil && json["é"]?["d"] == nil)
    }

    @Test("duplicate names are rejected in large objects as well")
    func duplicates() {
        let members = (0..<50).map { "\"n\($0)\":1" } + ["\"n49\":2"]
        #expect(throws: JSON.SyntaxError.self) {
            try JSON.parse(Array("{\(members.joined(separator: ","))}".utf8))
        }
    }
}
