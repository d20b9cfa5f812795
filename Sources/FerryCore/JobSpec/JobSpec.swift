/// The fields of an accepted job, each with its effective value. Secrets and bodies are stored apart
/// (`JobSecrets`, `payload`), so that showing a spec shows no secret.
public struct JobSpec: FieldObject {
    public static let summary = "A transfer to be done."
    public static let schemaName = "Job"

    /// Shared by all copies until one of them changes.
    var storage = Storage.standard

    /// Creates a spec with default values.
    public init() {}

    public static func == (a: JobSpec, b: JobSpec) -> Bool {
        a.storage === b.storage || a.storage.fields == b.storage.fields
    }

    /// `true` if the body of the response becomes a file, however short it is.
    public var storesFile: Bool { kind == .download || kind == .data && destination != nil }

    /// `true` if Ferry stores what the job receives: it has no destination, and is no upload.
    public var storesBytes: Bool { kind != .upload && destination == nil }

    /// Bytes per second in each direction, or `nil` for no limit.
    public var bytesPerSecondMax: Int64? {
        get { network.bytesPerSecondMax }
        set { network.bytesPerSecondMax = newValue }
    }

    /// `true` if the job asks for credentials after an authentication challenge; else it fails.
    public var asksOnChallenge: Bool {
        get { onChallenge == .ask }
        set { onChallenge = newValue ? .ask : .fail }
    }

    /// Behavior after an authentication challenge.
    public enum ChallengePolicy: String, FieldChoice { case fail, ask }

    /// Behavior if the server reports that the URL or the credential is outdated.
    public enum ExpiredURLPolicy: String, FieldChoice {
        case fail, ask

        public var isLeftOut: Bool { self == .fail }
    }

    /// A name and its value.
    public typealias Pair = NameValuePair

    /// Use of the network.
    public struct Network: FieldObject {
        public static let summary = "Use of the network."
        public static let schemaName = "Network"
        public static let standardTexts: StandardTexts? = StandardTexts(Self.self)
        /// Bytes per second in each direction, or `nil` for no limit.
        public var bytesPerSecondMax: Int64?
        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "allow_expensive", &OnlyTrue.value, .plain,
                "Whether expensive links may be used. This version knows no links, so that it is true.")
            visitor.field(
                "allow_constrained", &OnlyTrue.value, .plain,
                "Whether constrained links may be used. This version knows no links, so that it is true.")
            visitor.field(
                "max_bytes_per_second", &bytesPerSecondMax, 1...JSON.safeIntegerMax,
                .of(.always, unit: .bytesPerSecond), "Largest rate in each direction; null for no limit.")
        }
    }

    /// A boolean that takes no space in the stored form if it is false.
    private struct StoredIfTrue: FieldValue {
        var value: Bool

        static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
            Bool.decode(json, rule, place).map(Self.init)
        }
        static func restore(_ json: JSON) -> Self? { Bool.restore(json).map(Self.init) }
        func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(value) }
        var isLeftOut: Bool { !value }
        static func schema(_ rule: NoRule) -> [JSON.Member] { Bool.schema(rule) }
    }

    /// A boolean that is true in this version.
    private struct OnlyTrue: FieldValue {
        /// The only value, which is not stored.
        static var value: Self {
            get { Self() }
            set {}
        }

        static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
            guard let value = json.bool else { return place.failType("a boolean", json) }
            return value
                ? Self()
                : place.fail("not_supported", "Only true is supported by this version of Ferry.")
        }
        static func restore(_ json: JSON) -> Self? { Self() }
        func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(true) }
        var isLeftOut: Bool { true }
        static func schema(_ rule: NoRule) -> [JSON.Member] {
            // Not `const`, which generators do not support.
            JSON.rules(#"{"type": "boolean", "not": {"enum": [false]}}"#)
        }
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("kind", &kind, .of(.never, required: true), "Kind of the job.")
        visitor.field(
            "session", &session, .sessionName, .of(.never, column: "session"),
            "Name of the session: 1 to 128 letters, digits and -._~:@.")
        visitor.field(
            "group", &group, .groupName, .of(.never),
            "Name of the job's group: 1 to 128 letters, digits and ._:-. The first job creates the group. "
                + "null: no group.")
        var unique = self.unique
        visitor.object(
            "unique", &unique, .of(.never, column: "unique_key"),
            "Rule of a unique job: while another job of the tenant has its key, the submission returns that "
                + "job with status 200 and creates none. null: every submission creates a job.")
        if unique != self.unique { self.unique = unique }
        visitor.field(
            "description", &description, .description, .of(.always),
            "Text of the client: at most 1,024 bytes of UTF-8 without U+0000.")
        metadataField(&visitor, &metadata, .of(.always, column: "metadata"))
        visitor.object(
            "request", &request, .of(.always, required: true, isInResumeData: true), "The request.")
        var urls = mirrors.map(URLText.init)
        visitor.field(
            "mirrors", &urls, ListRule(0...Limits.mirrorCountMax, of: NoRule()),
            .of(.never, kinds: .download, determines: [.range, .ifRange]),
            "Other URLs of the same file, for downloads by GET. They are tried in the order of their "
                + "measured quality. Credentials among the request's header fields are sent to its own "
                + "origin only.")
        mirrors = urls.map(\.text)
        visitor.object(
            "destination", &destination, .plain,
            "Where a download, or the body of a data job, is stored. null: Ferry keeps the file or body for "
                + "the session's retention. Of an upload: the object of a store, in place of request.url.")
        visitor.object(
            "source", &source, .of(.never, kinds: [.download, .upload]),
            "The bytes of an upload. Of a download: the object of a store, in place of request.url.")
        visitor.object("integrity", &integrity, .plain, "What the bytes must be.")
        visitor.object("redirects", &redirects, .of(from: .sessionRule), "Rules for redirects.")
        visitor.object("accept", &accept, .of(from: .sessionRule), "Responses that are accepted.")
        visitor.field(
            "on_challenge", &onChallenge, .of(from: .session),
            "What happens after a 401, or a 407 of the job's own proxy. ask: a client may give a credential "
                + "(POST …/challenge).")
        visitor.field(
            "on_url_expired", &onURLExpired, .of(from: .session),
            "What happens after a 401, 403 or 410 that accept.status does not name and that is not retried. "
                + "ask: a client may give a new request (POST …/url_expired, or PATCH).")
        visitor.object("questions", &questions, .plain, "What applies if no client answers a question.")
        visitor.object("schedule", &schedule, .plain, "Begin date, timeouts and order.")
        visitor.object("network", &network, .of(.always, from: .sessionRule), "Use of the network.")
        visitor.object("retry", &retry, .of(from: .sessionRule), "Rules for further attempts.")
        visitor.field(
            "segments", &segmentCountMax, 1...Limits.segmentCountMax,
            .of(.never, kinds: .download, determines: [.range, .ifRange]),
            "Largest number of parts of the file that are fetched at once, for downloads by GET. If the "
                + "server does not support ranges safely, it is 1.")
        lowSpeed.fields(&visitor, from: .session)
        var suspension = StoredIfTrue(value: startsSuspended)
        visitor.field(
            "suspended", &suspension, .of(.never),
            "Whether the job is accepted in state suspended: it does not begin before a client resumes it.")
        startsSuspended = suspension.value
        var choice = AcknowledgementChoice(self)
        visitor.field(
            "acknowledgement", &choice, .of(.never, from: .sessionRule),
            "Whether the finished job waits for an acknowledgement: rules, null, or false to decline it even "
                + "where an endpoint requires it.")
        choice.apply(to: &self)
        visitor.object("webhook", &webhook, .of(.never, from: .sessionRule), "Webhook of the job.")
        var resumeData: ResumeText?
        visitor.field(
            "resume_data", &resumeData, .of(.never, kinds: [.download, .upload], isWriteOnly: true),
            "What a cancelled or failed job of the same kind and URL has shown: the download resumes from "
                + "its bytes, the upload at the offset that its server tells, or it begins at 0 if they are "
                + "gone. Without request.url, the URL is that of this job.")
    }
}

extension TextRule {
    /// Regular expression of a session's name, which is neither `.` nor `..`. The length is given beside it.
    public static let sessionNamePattern = #"(\.{0,2}[A-Za-z0-9_~:@-]|\.{3})[A-Za-z0-9._~:@-]*"#

    /// A session's name.
    public static let sessionName = TextRule(
        1...Limits.nameByteCountMax, pattern: "^\(sessionNamePattern)$"
    ) {
        SessionName.isValid($0) ? nil : "A session's name has 1 to 128 letters, digits and -._~:@."
    }
}

extension TextRule {
    /// A group's name.
    public static let groupName = TextRule(
        1...Limits.nameByteCountMax, pattern: #"^(\.{0,2}[A-Za-z0-9_:-]|\.{3})[A-Za-z0-9._:-]*$"#
    ) {
        GroupName.isValid($0) ? nil : "A group's name has \(GroupName.rule)."
    }
}

extension JobKind: FieldChoice {
    public static var unsupportedValues: [String] { ["stream"] }
}

// MARK: OpenAPI

extension JobSpec {
    public static func schema(of field: String, for kind: JobKind) -> [JSON.Member]? {
        field == "kind" ? [JSON.Member("enum", .array([.string(kind.rawValue)]))] : nil
    }

    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        switch kind {
        case .download: JSON.rules(partRules)
        case .upload: JSON.rules(uploadRules)
        case .data, nil: []
        }
    }

    /// An upload has a source, and a URL of its own, of its resume data, or of its destination.
    private static let uploadRules = #"""
        {
          "required": ["source"],
          "not": {
            "allOf": [
              {"not": {"required": ["request"], "properties": {"request": {"required": ["url"]}}}},
              {"not": {"required": ["resume_data"]}},
              {"not": {"required": ["destination"], "properties": {"destination": {"type": "object"}}}}
            ]
          },
          "if": {"required": ["destination"], "properties": {"destination": {"type": "object"}}},
          "then": {
            "properties": {
              "request": {
                "properties": {
                  "url": false, "method": {"const": "PUT"}, "auth": {"type": "null"},
                  "resumable_upload": {"enum": ["auto", "never"]}
                }
              },
              "source": {"properties": {"form": {"type": "null"}}, "not": {"required": ["url"]}},
              "destination": {"properties": {"if_exists": {"enum": ["replace", "fail"]}}},
              "on_url_expired": {"const": "fail"}, "on_challenge": {"const": "fail"}
            }
          }
        }
        """#

    /// Generators of clients make a union of an object with `anyOf`, but ignore `not`.
    private static let partRules = #"""
        {
          "not": {
            "allOf": [
              {"not": {"required": ["request"], "properties": {"request": {"required": ["url"]}}}},
              {"not": {"required": ["resume_data"]}},
              {"not": {"required": ["source"], "properties": {"source": {"type": "object"}}}}
            ]
          },
          "allOf": [
            {
              "if": {
                "anyOf": [
                  {"required": ["segments"], "properties": {"segments": {"minimum": 2}}},
                  {"required": ["mirrors"], "properties": {"mirrors": {"minItems": 1}}}
                ]
              },
              "then": {
                "properties": {
                  "request": {
                    "properties": {"method": {"const": "GET"}, "accept_encoding": {"const": "identity"}}
                  },
                  "on_challenge": {"const": "fail"},
                  "redirects": {"properties": {"policy": {"enum": ["follow", "reject"]}}}
                }
              }
            },
            {
              "if": {
                "required": ["destination"],
                "properties": {
                  "destination": {
                    "type": "object", "anyOf": [{"required": ["url"]}, {"required": ["s3"]}]
                  }
                }
              },
              "then": {
                "properties": {
                  "request": {
                    "properties": {"method": {"const": "GET"}, "accept_encoding": {"const": "identity"}}
                  },
                  "resume_data": false, "segments": {"const": 1},
                  "mirrors": {"maxItems": 0}, "on_challenge": {"const": "fail"},
                  "on_url_expired": {"const": "fail"},
                  "redirects": {"properties": {"policy": {"enum": ["follow", "reject"]}}}
                }
              }
            },
            {
              "if": {"required": ["source"], "properties": {"source": {"type": "object"}}},
              "then": {
                "properties": {
                  "request": {
                    "properties": {
                      "url": false, "method": {"const": "GET"}, "auth": {"type": "null"},
                      "body": {"type": "null"}
                    }
                  },
                  "on_url_expired": {"const": "fail"}, "on_challenge": {"const": "fail"}
                }
              }
            }
          ]
        }
        """#
}

extension JSON {
    /// Returns the members of a JSON object that is part of the source.
    public static func rules(_ text: String) -> [Member] {
        // The text is valid: a test reads the document that contains it.
        (try? parse(Array(text.utf8)))?.members ?? []
    }
}
