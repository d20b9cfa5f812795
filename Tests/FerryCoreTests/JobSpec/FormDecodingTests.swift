import FerryCore
import Testing

@Suite("Multipart bodies")
struct FormDecodingTests {
    private func data(_ multipart: String, headers: String = "{}") -> String {
        #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","headers":\#(headers),"#
            + #""body":{"multipart":\#(multipart)}}}"#
    }

    private func upload(_ source: String) -> String {
        #"{"kind":"upload","request":{"url":"http://a.example/"},"source":\#(source)}"#
    }

    @Test("parts keep their order, inline bytes become the payload, and files get names and types")
    func parts() throws {
        let job = try decode(
            data(
                #"[{"name":"a","text":"é"},{"name":"b","base64":"AAEC"},{"name":"c","path":"in/d.csv"},"#
                    + #"{"name":"e","text":"f","file_name":"g","content_type":"text/csv"}]"#))
        let parts = try #require(job.spec.request.body?.parts)
        #expect(parts.map(\.name) == ["a", "b", "c", "e"])
        #expect(parts.map(\.fileName) == [nil, nil, "d.csv", "g"])
        #expect(
            parts.map(\.contentType)
                == [nil, "application/octet-stream", "application/octet-stream", "text/csv"])
        #expect(parts[2].source == .path("in/d.csv"))
        #expect(job.payload == [0xC3, 0xA9, 0, 1, 2, 0x66])
        #expect(job.spec.request.body?.byteCount == 6 && job.spec.hasPayload)
        let shown = String(decoding: job.spec.encode(), as: UTF8.self)
        #expect(shown.contains(#"{"name":"a","text":{"size":2},"file_name":null,"content_type":null}"#))
    }

    @Test("a form has its fields before the file; without inline bytes there is no payload")
    func form() throws {
        let job = try decode(upload(#"{"path":"a/b.png","form":{"fields":{"x":"1","y":"22"}}}"#))
        guard case .form(let parts, _)? = job.spec.source else { throw StoreError.failed }
        #expect(parts.map(\.name) == ["x", "y", "file"])
        #expect(parts.last?.source == .path("a/b.png") && parts.last?.fileName == "b.png")
        #expect(job.payload == Array("122".utf8))
        let bare = try decode(upload(#"{"path":"a","form":{"field":"f","file_name":"n"}}"#))
        #expect(bare.payload == nil && !bare.spec.hasPayload)
        let inline = try decode(upload(#"{"text":"abc","form":{"fields":{"x":"1"}}}"#))
        #expect(inline.payload == Array("1abc".utf8))
        #expect(inline.spec.parts?.last?.fileName == "file")
        let shown = String(decoding: job.spec.encode(), as: UTF8.self)
        #expect(
            shown.contains(
                #""source":{"path":"a/b.png","form":{"field":"file","file_name":"b.png","#
                    + #""content_type":"application/octet-stream","fields":{"x":{"size":1},"y":{"size":2}}}}"#
            ))
    }

    @Test("the fields of a form repeat names in a list, and are stored and shown as they were given")
    func fieldList() throws {
        for (fields, shown) in [
            (
                #"[{"name":"x","value":"1"},{"name":"x","value":""},{"name":"y","value":"22"}]"#,
                #"[{"name":"x","value":{"size":1}},{"name":"x","value":{"size":0}},"#
                    + #"{"name":"y","value":{"size":2}}]"#
            ),
            (#"[{"name":"x","value":"1"}]"#, #"[{"name":"x","value":{"size":1}}]"#),
            ("[]", "[]"), ("{}", "{}"), (#"{"x":"1"}"#, #"{"x":{"size":1}}"#),
        ] {
            let job = try decode(upload(#"{"path":"a","form":{"fields":\#(fields)}}"#))
            let text = String(decoding: job.spec.encode(), as: UTF8.self)
            #expect(text.contains(#""fields":\#(shown)}}"#), "\(text)")
            let restored = try JobSpec(storedJSON: job.spec.encodeStored())
            #expect(String(decoding: restored.encode(), as: UTF8.self) == text)
        }
        let job = try decode(upload(#"{"path":"a","form":{"fields":[{"value":"1","name":"x"}]}}"#))
        #expect(job.spec.parts?.map(\.name) == ["x", "file"] && job.payload == Array("1".utf8))
    }

    @Test("an encoded form repeats names in a list, in its order")
    func encodedList() throws {
        let data = { (form: String) in
            #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","#
                + #""body":{"form":\#(form)}}}"#
        }
        let list = #"[{"name":"b","value":"1"},{"name":"a","value":"é"},{"name":"b","value":"2"}]"#
        let job = try decode(data(list))
        #expect(job.payload == Array("b=1&a=%C3%A9&b=2".utf8))
        #expect(try decode(data(#"[]"#)).payload?.isEmpty ?? true)
        for (form, pointers) in [
            (#"[{"name":"b"}]"#, ["#/request/body/form/0/value"]),
            (#"[{"name":"b","value":1}]"#, ["#/request/body/form/0/value"]),
            (#"[{"name":1,"value":"1"}]"#, ["#/request/body/form/0/name"]),
            (#"[{"name":"b","value":"1","x":1}]"#, ["#/request/body/form/0/x"]),
            (#"[["b","1"]]"#, ["#/request/body/form/0"]), (#""b=1""#, ["#/request/body/form"]),
        ] { #expect(errors(data(form)).map(\.pointer) == pointers, "\(form)") }
        #expect(
            errors(upload(#"{"path":"a","form":{"fields":[{"name":"","value":"1"}]}}"#)).map(\.pointer)
                == ["#/source/form/fields/0/name"])
    }

    @Test("errors of parts have the pointer of the part")
    func wrong() {
        let long = String(repeating: "x", count: 256)
        for (text, pointers) in [
            (data("[]"), ["#/request/body/multipart"]), (data("{}"), ["#/request/body/multipart"]),
            (data("[1]"), ["#/request/body/multipart/0"]),
            (data(#"[{"text":"a"}]"#), ["#/request/body/multipart/0/name"]),
            (data(#"[{"name":"a"}]"#), ["#/request/body/multipart/0"]),
            (data(#"[{"name":"a","text":"b","path":"c"}]"#), ["#/request/body/multipart/0"]),
            (data(#"[{"name":"","text":"b"}]"#), ["#/request/body/multipart/0/name"]),
            (data(#"[{"name":"\u0000","text":"b"}]"#), ["#/request/body/multipart/0/name"]),
            (data(#"[{"name":"a","text":1}]"#), ["#/request/body/multipart/0/text"]),
            (data(#"[{"name":"a","path":"../b"}]"#), ["#/request/body/multipart/0/path"]),
            (data(#"[{"name":"a","path":"b/"}]"#), ["#/request/body/multipart/0/path"]),
            (data(#"[{"name":"a","job":"job_1"}]"#), ["#/request/body/multipart/0/job"]),
            (data(#"[{"name":"a","base64":"A"}]"#), ["#/request/body/multipart/0/base64"]),
            (
                data(#"[{"name":"a","text":"b","file_name":"\#(long)"}]"#),
                ["#/request/body/multipart/0/file_name"]
            ),
            (
                data(#"[{"name":"a","text":"b","content_type":"a/b\r\nX: y"}]"#),
                ["#/request/body/multipart/0/content_type"]
            ),
            (
                data(#"[{"name":"a","text":"b","content_type":"image/*"}]"#), []
            ),
            (data(#"[{"name":"a","text":"b","more":1}]"#), ["#/request/body/multipart/0/more"]),
            (
                data(#"[{"name":"a","text":"b"}]"#, headers: #"{"content-type":"multipart/form-data"}"#),
                ["#/request/headers/content-type"]
            ),
            (upload(#"{"text":"a","form":1}"#), ["#/source/form"]),
            (upload(#"{"text":"a","form":{"fields":{"x":1}}}"#), ["#/source/form/fields/x"]),
            (upload(#"{"text":"a","form":{"fields":{"":"1"}}}"#), ["#/source/form/fields/"]),
            (upload(#"{"text":"a","form":{"field":""}}"#), ["#/source/form/field"]),
            (upload(#"{"form":{}}"#), ["#/source"]), (upload(#"{"job":"x"}"#), ["#/source/job"]),
        ] {
            #expect(errors(text).map(\.pointer) == pointers, "\(text.prefix(200))")
        }
        let many = (0..<101).map { _ in #"{"name":"a","text":"b"}"# }.joined(separator: ",")
        #expect(errors(data("[\(many)]")).map(\.code) == ["too_many"])
    }

    @Test("a stored source, body or part without content is damaged")
    func damaged() throws {
        for (text, member) in [
            (upload(#"{"path":"a"}"#), #""path":"a""#),
            (data(#"[{"name":"b","path":"a"}]"#), #""path":"a","#),
        ] {
            let stored = String(decoding: try decode(text).spec.encodeStored(), as: UTF8.self)
            #expect(try JobSpec(storedJSON: Array(stored.utf8)).encodeStored() == Array(stored.utf8))
            let broken = stored.replacing(member, with: "")
            #expect(broken != stored)
            #expect(throws: StoredJSONError.self) { try JobSpec(storedJSON: Array(broken.utf8)) }
        }
    }

    @Test("a destination with a final slash is a directory and renames by default")
    func directory() throws {
        let decode = { (destination: String) in
            try FerryCoreTests.decode(
                #"{"kind":"download","request":{"url":"http://a.example/"},"destination":\#(destination)}"#
            ).spec.destination
        }
        #expect(try decode(#"{"path":"a/"}"#) == .init(path: "a/", ifExists: .rename))
        #expect(try decode(#"{"path":"a/b/","if_exists":"replace"}"#)?.ifExists == .replace)
        #expect(try decode(#"{"path":"a/b"}"#)?.isDirectory == false)
    }
}
