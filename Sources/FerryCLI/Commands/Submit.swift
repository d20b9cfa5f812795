package import ArgumentParser
import FerryCore

/// `ferry submit`: submits jobs given as JSON.
package struct Submit: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Submits jobs given as JSON.",
        discussion: """
            The file contains one job, an array of jobs, {"jobs": […]}, or one job per line. Either all jobs \
            are accepted or none. Without --wait, prints the identifiers in order, one per line.

            EXAMPLES
              echo '{"kind":"data","request":{"url":"https://example.com/"}}' | ferry submit - --wait
              ferry submit jobs.ndjson --json
            """)

    @Argument(help: "File with the jobs; - is standard input.")
    var file: String

    @Flag(inversion: .prefixedNo, help: "Wait until every job has ended.")
    var wait = false

    @Option(name: .long, help: "Longest time to wait in seconds; then exit status 4. The jobs continue.")
    var timeout: Double?

    @Option(name: .long, help: "Idempotency key: the same key returns the same jobs.")
    var idempotencyKey: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Unique key of the job: while a job has it, that job is returned and none is created.",
            valueName: "key"))
    var unique: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Time after its success for which an earlier job has the unique key, in seconds; by default "
                + "only unfinished jobs have it.", valueName: "seconds"))
    var uniqueFor: Double?

    @Option(
        name: .long,
        help: ArgumentHelp("Start the jobs after this one has ended; repeatable.", valueName: "job"))
    var after: [String] = []

    @Option(name: .long, help: "Time by which the jobs must have ended, such as 2026-11-21T22:00:00Z.")
    var deadline: String?

    @Option(name: .long, help: "Name of the group of the jobs that have no member group.")
    var group: String?

    @Flag(name: .long, help: "Close the group: later only retries of its jobs join it.")
    var closeGroup = false

    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        if closeGroup, group == nil { throw ValidationError("--close-group needs --group.") }
        if uniqueFor != nil, unique == nil { throw ValidationError("--unique-for needs --unique.") }
        try WaitOptions.check(timeout, wait: wait)
    }

    package func run() throws {
        let console = Console.current
        let service = try client.service()
        let submission = try Submission(
            LocalFile.readJSON(file, byteCountMax: Limits.batchByteCountMax), name: file
        ).scheduled(scheduleMembers(after: after, deadline: deadline)).unique(unique, for: uniqueFor)
            .grouped(group, closing: closeGroup)
        let response = try service.send(
            "POST", submission.isBatch ? "/v1/jobs/batch" : "/v1/jobs", body: submission.body,
            idempotencyKey: idempotencyKey)
        let jobs = submission.isBatch ? response.json["data"]?.array ?? [] : [response.json]
        let ids = try jobs.map { try identifier(of: $0) }
        guard wait else {
            if client.json { return try console.data(json: response.bytes) }
            for id in ids { try console.data(line: id) }
            return
        }
        try Watch.watch(ids, service: service, timeout: timeout, json: client.json)
    }

    /// Body of the request: one job or a batch.
    struct Submission: Equatable {
        /// Adds members to the schedule of each job. Dependencies are added to the job's own.
        func scheduled(_ members: [JSON.Member]) -> Submission {
            // `init` has parsed the body, so this cannot fail.
            guard !members.isEmpty, let json = try? JSON.parse(body) else { return self }
            var writer = JSONWriter()
            if isBatch {
                let jobs = (json["jobs"]?.array ?? []).map { Self.scheduled($0, members) }
                writer.value(json.merged(with: .object([.init("jobs", .array(jobs))])))
            } else {
                writer.value(Self.scheduled(json, members))
            }
            return Submission(isBatch: isBatch, body: writer.bytes)
        }

        /// Adds the rule of a unique job, if there is a key. Throws `usage` for several jobs: each needs a
        /// key of its own, in the file.
        func unique(_ key: String?, for seconds: Double?) throws(ClientFailure) -> Submission {
            guard let key else { return self }
            guard !isBatch, let json = try? JSON.parse(body) else {
                throw ClientFailure(
                    .usage, "--unique is for one job. Give each job of several ones a member unique.")
            }
            var rule = [JSON.Member("key", .string(key))]
            if let seconds { rule.append(JSON.Member("for", .number(seconds))) }
            var writer = JSONWriter()
            writer.value(json.merged(with: .object([JSON.Member("unique", .object(rule))])))
            return Submission(isBatch: false, body: writer.bytes)
        }

        private static func scheduled(_ job: JSON, _ members: [JSON.Member]) -> JSON {
            // The service reports values that are not jobs.
            guard job.members != nil else { return job }
            let own = job["schedule"]?["depends_on"]?.array ?? []
            let all = members.map { member -> JSON.Member in
                guard let added = member.value.array else { return member }
                return JSON.Member(member.name, .array(own + added))
            }
            return job.merged(with: .object([JSON.Member("schedule", .object(all))]))
        }

        /// Names the group of the jobs that have no member `group`. A single job that closes its group
        /// becomes a batch.
        func grouped(_ group: String?, closing closes: Bool) -> Submission {
            // `init` has parsed the body, so this cannot fail.
            guard let group, let json = try? JSON.parse(body) else { return self }
            let member = JSON.Member("group", .string(group))
            var writer = JSONWriter()
            if isBatch || closes {
                let jobs: JSON = isBatch ? json : .object([.init("jobs", .array([json]))])
                let members = [member] + (closes ? [JSON.Member("close_group", .bool(true))] : [])
                writer.value(jobs.merged(with: .object(members)))
                return Submission(isBatch: true, body: writer.bytes)
            }
            writer.value(json["group"] == nil ? json.merged(with: .object([member])) : json)
            return Submission(isBatch: false, body: writer.bytes)
        }

        private init(isBatch: Bool, body: [UInt8]) {
            self.isBatch = isBatch
            self.body = body
        }

        let isBatch: Bool
        let body: [UInt8]

        /// Parses the text of a file. Throws `usage` if it is not JSON; the service checks the jobs.
        init(_ text: [UInt8], name: String) throws(ClientFailure) {
            let whole: JSON
            do {
                whole = try JSON.parse(text)
            } catch {
                // Otherwise one value per line.
                let lines = text.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }).filter { line in
                    line.contains { $0 != 0x20 && $0 != 0x09 }
                }
                // A malformed object over several lines is not a list: its first line alone is not JSON.
                guard lines.count > 1, (try? JSON.parse(Array(lines[0]))) != nil else {
                    throw ClientFailure(
                        .usage, "\(name) is not JSON: \(error.reason), at byte \(error.offset).")
                }
                for (index, line) in lines.enumerated() {
                    do {
                        _ = try JSON.parse(Array(line))
                    } catch {
                        throw ClientFailure(
                            .usage,
                            "\(name): job \(index + 1) is not JSON: \(error.reason), at byte \(error.offset)."
                        )
                    }
                }
                isBatch = true
                body =
                    Array("{\"jobs\":[".utf8) + lines.joined(separator: [UInt8(ascii: ",")])
                    + Array("]}".utf8)
                return
            }
            switch whole {
            case .array:
                isBatch = true
                body = Array("{\"jobs\":".utf8) + text + Array("}".utf8)
            case .object:
                isBatch = whole["jobs"] != nil
                body = text
            default: throw ClientFailure(.usage, "\(name) contains \(whole.typeName), not a job.")
            }
        }
    }
}
