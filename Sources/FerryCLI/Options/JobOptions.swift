import ArgumentParser
import FerryCore

/// Options of `get` and `put` that describe the job.
struct JobOptions: ParsableArguments {
    @Option(
        name: [.customShort("H"), .long],
        help: ArgumentHelp("Header field of the request; repeatable.", valueName: "name: value"))
    var header: [String] = []

    @Option(name: .long, help: "Session of the job.")
    var session: String?

    @Option(name: .long, help: "Description that is shown with the job.")
    var description: String?

    @Option(
        name: [.customShort("m"), .long], help: ArgumentHelp("Metadata; repeatable.", valueName: "key=value"))
    var metadata: [String] = []

    @Option(name: .long, help: "Priority from 0 to 1; jobs with higher priority start first.")
    var priority: Double?

    @Option(name: .long, help: ArgumentHelp("Begin after this job has ended; repeatable.", valueName: "job"))
    var after: [String] = []

    @Option(name: .long, help: "Time by which the job must have ended, such as 2026-11-21T22:00:00Z.")
    var deadline: String?

    @Option(name: .long, help: "Largest number of attempts.")
    var attempts: Int?

    @Option(name: .long, help: "URL of a webhook that is sent the job's events.")
    var webhook: String?

    @Option(
        name: .long,
        help: ArgumentHelp("Header field of the webhook's deliveries; repeatable.", valueName: "name: value"))
    var webhookHeader: [String] = []

    @Flag(name: .long, help: "Send the webhook small deliveries, without most of the job.")
    var webhookThin = false

    @Option(
        name: .long,
        help: "PEM file with the authorities to trust for the webhook instead of the system's.")
    var webhookCaFile: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Public key the webhook's receiver must have; repeatable (any).", valueName: "sha256//base64"))
    var webhookPin: [String] = []

    @Option(name: .long, help: "Idempotency key: the same key returns the same job.")
    var idempotencyKey: String?

    @Flag(
        inversion: .prefixedNo,
        help:
            "Wait for a host that cannot be reached, instead of using attempts; the session has the default.")
    var waitForConnectivity: Bool?

    @OptionGroup var connection: ConnectionOptions

    mutating func validate() throws {
        let hasWebhookOptions =
            !webhookHeader.isEmpty || webhookThin || webhookCaFile != nil || !webhookPin.isEmpty
        guard webhook != nil || !hasWebhookOptions else {
            throw ValidationError(
                "--webhook-header, --webhook-thin, --webhook-ca-file and --webhook-pin need --webhook.")
        }
        for line in header + webhookHeader where Self.pair(line, separator: ":") == nil {
            throw ValidationError("\"\(line)\" is not a header field. Write it as 'Name: value'.")
        }
        for entry in metadata where Self.pair(entry, separator: "=") == nil {
            throw ValidationError("\"\(entry)\" is not metadata. Write it as key=value.")
        }
    }

    /// Splits a pair at its first separator. Spaces before a header field's value are not part of it (RFC
    /// 9110 §5.5).
    static func pair(_ text: String, separator: Unicode.Scalar) -> (String, String)? {
        guard let index = text.unicodeScalars.firstIndex(of: separator), index > text.startIndex else {
            return nil
        }
        let value = text[text.unicodeScalars.index(after: index)...]
        return (String(text[..<index]), String(separator == ":" ? value.drop { $0 == " " } : value))
    }

    /// Returns the body of `POST /v1/jobs`. `sending`: text that the request sends. `more` writes the members
    /// of the command itself.
    func body(
        kind: String, url: String, method: String? = nil, sending text: String? = nil,
        more: (inout JSONWriter) -> Void
    ) throws(ClientFailure) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("kind", kind)
        if let session { writer.member("session", session) }
        if let description { writer.member("description", description) }
        object("metadata", metadata, separator: "=", &writer)
        writer.name("request")
        writer.beginObject()
        writer.member("url", url)
        if let method { writer.member("method", method) }
        if let text { writer.member("body", .object([.init("text", .string(text))])) }
        writer.headerFields(header)
        try connection.write(into: &writer)
        writer.endObject()
        var schedule = scheduleMembers(priority: priority, after: after, deadline: deadline)
        if let waitForConnectivity {
            schedule.append(.init("waits_for_connectivity", .bool(waitForConnectivity)))
        }
        if !schedule.isEmpty { writer.member("schedule", .object(schedule)) }
        if let attempts { member("retry", "max_attempts", .integer(Int64(attempts)), &writer) }
        if let webhook {
            writer.name("webhook")
            writer.beginObject()
            writer.member("url", webhook)
            writer.deliveryContent(headers: webhookHeader, isThin: webhookThin)
            try writer.receiverTLS(caFile: webhookCaFile, pins: webhookPin)
            writer.endObject()
        }
        more(&writer)
        writer.endObject()
        return writer.bytes
    }

    private func object(
        _ name: String, _ entries: [String], separator: Unicode.Scalar, _ writer: inout JSONWriter
    ) {
        guard !entries.isEmpty else { return }
        writer.name(name)
        writer.beginObject()
        for (name, value) in entries.compactMap({ Self.pair($0, separator: separator) }) {
            writer.member(name, value)
        }
        writer.endObject()
    }

    private func member(_ outer: String, _ inner: String, _ value: JSON, _ writer: inout JSONWriter) {
        writer.member(outer, .object([.init(inner, value)]))
    }

    /// Submits the job and returns the service's response, which is the job.
    func submit(_ body: [UInt8], to service: ServiceClient) throws -> ServiceClient.Response {
        try service.send("POST", "/v1/jobs", body: body, idempotencyKey: idempotencyKey)
    }
}

extension JSONWriter {
    /// Writes `header_fields` of lines as `Name: value`, unless there are none.
    fileprivate mutating func headerFields(_ lines: [String]) {
        let fields = lines.compactMap { JobOptions.pair($0, separator: ":") }
        guard !fields.isEmpty else { return }
        name("header_fields")
        beginArray()
        for (name, value) in fields {
            self.value(.object([.init("name", .string(name)), .init("value", .string(value))]))
        }
        endArray()
    }

    /// Writes what the deliveries of a webhook contain besides the event.
    mutating func deliveryContent(headers: [String], isThin: Bool) {
        headerFields(headers)
        if isThin { member("payload", "thin") }
    }

    /// Writes `tls` of a webhook's receiver, unless it has the default.
    mutating func receiverTLS(caFile: String?, pins: [String]) throws(ClientFailure) {
        var members: [JSON.Member] = []
        if let caFile { members.append(.init("ca", .string(try LocalFile.readPEM(caFile)))) }
        if !pins.isEmpty { members.append(.init("pins", .array(pins.map { .string($0) }))) }
        if !members.isEmpty { member("tls", .object(members)) }
    }
}

/// Returns the members of `schedule` that the options set.
func scheduleMembers(priority: Double? = nil, after: [String], deadline: String?) -> [JSON.Member] {
    var members: [JSON.Member] = []
    if let priority { members.append(.init("priority", .number(priority))) }
    if let deadline { members.append(.init("deadline_at", .string(deadline))) }
    if !after.isEmpty { members.append(.init("depends_on", .array(after.map { .string($0) }))) }
    return members
}

/// Returns the identifier of a job in a response. Throws if there is none.
func identifier(of job: JSON) throws(ClientFailure) -> String {
    guard let id = job["id"]?.string else {
        throw ClientFailure(.failed, "The response contains no job. Check FERRY_URL.")
    }
    return id
}
