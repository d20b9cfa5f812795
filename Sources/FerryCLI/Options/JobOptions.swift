import ArgumentParser
import FerryCore

/// What `get` and `put` can say about a job.
struct JobOptions: ParsableArguments {
    @Option(
        name: [.customShort("H"), .long],
        help: ArgumentHelp("A request header; repeatable.", valueName: "name: value"))
    var header: [String] = []

    @Option(name: .long, help: "The session it belongs to.")
    var session: String?

    @Option(name: .long, help: "Words for people, shown with the job.")
    var description: String?

    @Option(
        name: [.customShort("m"), .long], help: ArgumentHelp("Metadata; repeatable.", valueName: "key=value"))
    var metadata: [String] = []

    @Option(name: .long, help: "From 0 to 1; higher goes first.")
    var priority: Double?

    @Option(name: .long, help: ArgumentHelp("Begin after this job has ended; repeatable.", valueName: "job"))
    var after: [String] = []

    @Option(name: .long, help: "When it must have ended, such as 2026-11-21T22:00:00Z.")
    var deadline: String?

    @Option(name: .long, help: "Attempts at most.")
    var attempts: Int?

    @Option(name: .long, help: "A URL that is told how the job ended.")
    var webhook: String?

    @Option(name: .long, help: "Makes repeating this command harmless: the same key gives the same job.")
    var idempotencyKey: String?

    @Flag(name: .long, help: "Waits for a host that cannot be reached, instead of failing.")
    var waitForConnectivity = false

    @OptionGroup var connection: ConnectionOptions

    mutating func validate() throws {
        for line in header where Self.pair(line, separator: ":") == nil {
            throw ValidationError("\"\(line)\" is no header; write it as 'Name: value'.")
        }
        for entry in metadata where Self.pair(entry, separator: "=") == nil {
            throw ValidationError("\"\(entry)\" is no metadata; write it as key=value.")
        }
    }

    /// The spaces that a header's value begins with are none of it (RFC 9110 §5.5).
    static func pair(_ text: String, separator: Unicode.Scalar) -> (String, String)? {
        guard let index = text.unicodeScalars.firstIndex(of: separator), index > text.startIndex else {
            return nil
        }
        let value = text[text.unicodeScalars.index(after: index)...]
        return (String(text[..<index]), String(separator == ":" ? value.drop { $0 == " " } : value))
    }

    /// The body of `POST /v1/jobs`. `more` writes the members that are the command's own.
    func body(
        kind: String, url: String, method: String? = nil, more: (inout JSONWriter) -> Void
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
        object("headers", header, separator: ":", &writer)
        try connection.write(into: &writer)
        writer.endObject()
        var schedule = scheduleMembers(priority: priority, after: after, deadline: deadline)
        // Whoever types a name that does not exist wants to know.
        schedule.append(.init("waits_for_connectivity", .bool(waitForConnectivity)))
        writer.member("schedule", .object(schedule))
        if let attempts { member("retry", "max_attempts", .integer(Int64(attempts)), &writer) }
        if let webhook { member("webhook", "url", .string(webhook), &writer) }
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

    /// Hands the job over; the answer is the job.
    func submit(_ body: [UInt8], to service: ServiceClient) throws -> ServiceClient.Answer {
        try service.send("POST", "/v1/jobs", body: body, idempotencyKey: idempotencyKey)
    }
}

/// What the options say about `schedule`.
func scheduleMembers(priority: Double? = nil, after: [String], deadline: String?) -> [JSON.Member] {
    var members: [JSON.Member] = []
    if let priority { members.append(.init("priority", .number(priority))) }
    if let deadline { members.append(.init("deadline_at", .string(deadline))) }
    if !after.isEmpty { members.append(.init("depends_on", .array(after.map { .string($0) }))) }
    return members
}

/// The identifier of a job that the service showed.
func identifier(of job: JSON) throws(ClientFailure) -> String {
    guard let id = job["id"]?.string else {
        throw ClientFailure(.failed, "The answer holds no job: is it Ferry?")
    }
    return id
}
