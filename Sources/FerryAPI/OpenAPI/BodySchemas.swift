internal import FerryCore

extension FieldSchemas {
    /// Adds bodies and sources of jobs.
    func addBodies() {
        reference("Body") {
            oneOf(
                #"Body of a request. Shown with its size instead of its content: {"json": {"size": 5}}."#,
                .schema("JSONBody"), .schema("FormBody"), .schema("InlineText"), .schema("InlineBase64"),
                .schema("MultipartBody"))
        }
        reference("JSONBody") {
            closed("JSON.", [.property("json", [:], "Any JSON value, sent as application/json.")])
        }
        reference("FormBody") {
            closed(
                "Fields of a form.",
                [
                    .property(
                        "form", Self.map(countMax: 1_000),
                        "Fields by name, sent as application/x-www-form-urlencoded.")
                ])
        }
        reference("MultipartBody") {
            let parts: JSON = [
                "type": "array", "minItems": .integer(1), "maxItems": .integer(Int64(Limits.partCountMax)),
                "items": .schema("Part"),
            ]
            return closed(
                "Parts of a form.",
                [.property("multipart", parts, "The parts, sent as multipart/form-data (RFC 7578).")])
        }
        reference("InlineText") { closed("A text.", [Self.text]) }
        reference("InlineBase64") { closed("Bytes as base64.", [Self.base64]) }
        reference("Part") {
            closed(
                "A part of a multipart/form-data body (RFC 7578): a field or a file. Exactly one of text, "
                    + "base64, path and job is given. The content of text and base64 is shown as {\"size\": "
                    + "5}.",
                [.property("name", .schema("PartName"), "Name of the part.")],
                optional: Self.places + [
                    .nullable(
                        "file_name", "PartName",
                        "File name of the part. Default: the last component of path, or the file name of the "
                            + "job; none for text and base64."),
                    .nullable(
                        "content_type", "MediaType",
                        "Media type of the part. Default: that of the job's content, else "
                            + "application/octet-stream; none for text."),
                ], [Self.exactlyOne])
        }
        reference("Source") {
            closed(
                "Source of an upload. Exactly one of path, job, text and base64 is given.", [],
                optional: Self.places + [
                    .nullable(
                        "form", "UploadForm",
                        "Form that carries the source as a file, or null to send the source as the whole "
                            + "body."
                    )
                ], [Self.exactlyOne])
        }
        reference("UploadForm") {
            closed(
                "Sends the source as a file of a multipart/form-data body, after the fields. integrity and "
                    + "result cover the file only. Most servers expect the method POST.", [],
                optional: [
                    .property(
                        "field", ["$ref": "#/components/schemas/PartName", "default": "file"],
                        "Name of the field that carries the file."),
                    .nullable(
                        "file_name", "PartName",
                        "File name of the source. Default: the last component of path, the file name of the "
                            + "job, or file."),
                    .nullable(
                        "content_type", "MediaType",
                        "Media type of the source. Default: that of the job's content, else "
                            + "application/octet-stream."),
                    .property(
                        "fields", Self.map(countMax: Limits.partCountMax - 1, names: "PartName"),
                        "Further fields by name, sent before the file."),
                ])
        }
        addTexts()
    }

    private func addTexts() {
        let component = #"(?!\.\.?(/|$)|\.ferry-)[^/\#(NameCharacters.forbiddenRanges)]{1,255}"#
        reference("Path") {
            Self.text(
                1...Limits.pathByteCountMax, "^\(component)(/\(component))*$",
                "Path below the tenant's storage root: relative, without empty, . or .. components. A "
                    + "component has at most 255 bytes and does not begin with .ferry-. No control "
                    + "characters, line separators and bidirectional controls.")
        }
        reference("PartName") {
            Self.text(
                1...Limits.partNameByteCountMax, "^[^\(NameCharacters.forbiddenRanges)]*$",
                "Name of a part or file: at most 255 bytes of UTF-8, without control characters, line "
                    + "separators and bidirectional controls. A quote is sent as %22.")
        }
        reference("MediaType") {
            Self.text(
                0...255, "^[A-Za-z0-9!#$%&'*+.^_`|~-]+/[A-Za-z0-9!#$%&'*+.^_`|~-]+(;[ -~]*)?$",
                "A media type with optional parameters.")
        }
        reference("SourceJob") {
            Self.text(
                0 ... .max, "^job_[0-7][0-9A-Ha-hJKMNP-TV-Zjkmnp-tv-z]{25}$",
                "Identifier of a job of the same tenant whose content is sent as it was received. That job "
                    + "must have succeeded when this one begins.")
        }
        reference("Base64") {
            Self.text(
                0 ... .max,
                "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
                "Bytes as base64 (RFC 4648 section 4), with padding.", [.init("contentEncoding", "base64")])
        }
    }

    private static let text = JSON.Member.property("text", ["type": "string"], "Text to send as UTF-8.")
    private static let base64 = JSON.Member.property("base64", .schema("Base64"), "Bytes as base64.")
    /// Where the bytes of a source or a part are.
    private static let places = [
        text, base64, .property("path", .schema("Path"), "Path of a file below the tenant's storage root."),
        .property("job", .schema("SourceJob"), "The job whose content is sent."),
    ]
    private static let exactlyOne = JSON.Member(
        "oneOf", .array(places.map { ["required": [.string($0.name)]] }))

    private static func map(countMax: Int, names: String? = nil) -> JSON {
        let rules = names.map { [JSON.Member("propertyNames", .schema($0))] } ?? []
        return .object(
            [
                JSON.Member("type", "object"), JSON.Member("maxProperties", .integer(Int64(countMax))),
                JSON.Member("additionalProperties", ["type": "string"]),
            ] + rules)
    }

    private static func text(
        _ counts: ClosedRange<Int>, _ pattern: String, _ text: String, _ rules: [JSON.Member] = []
    ) -> JSON {
        let members = String.schema(TextRule(counts, pattern: pattern)) + rules
        return .object(members + [JSON.Member("description", .string(text))])
    }
}
