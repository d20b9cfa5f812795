extension JobSpec {
    /// Begin date, timeouts and order of a job.
    public struct Schedule: FieldObject {
        public static let summary = "Begin date, timeouts and order of a job."
        public static let schemaName = "JobSchedule"
        public static let standardTexts: StandardTexts? = StandardTexts(Self.self)
        /// From 0.0 to 1.0; jobs with a higher value are earlier.
        public var priority = 0.5
        /// Purpose of the transfer.
        public var networkServiceType = NetworkServiceType.standard
        /// Time before which the job does not begin, or `nil`.
        public var earliestBeginAt: Timestamp?
        /// Time by which the job must have ended, in addition to `timeoutForResource`; `nil` if there is
        /// none.
        public var deadlineAt: Timestamp?
        /// `true` if Ferry chooses the time to begin.
        public var isDiscretionary = false
        /// `true` if the job waits while its host cannot be reached; else it uses attempts.
        public var waitsForConnectivity = false
        /// `true` if the job waits for confirmation before it begins.
        public var confirmsBeforeBegin = false
        /// Expected bytes of the bodies, or `nil` if not known.
        public var expectedBytesToSend: Int64?
        public var expectedBytesToReceive: Int64?
        /// Seconds from acceptance for all attempts together.
        public var timeoutForResource = 604_800.0
        /// Jobs and groups of the same tenant that must have ended before this job begins; each occurs once.
        public var dependencies: [JobDependency] = []
        /// Behavior if a job or group that this job depends on has not succeeded.
        public var onDependencyFailure = DependencyFailure.fail
        /// Creates a schedule: medium priority, at once, one week in total.
        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "priority", &priority, 0...1, .of(.always, from: .session, column: "priority"),
                "Jobs with a higher value are earlier.")
            visitor.field(
                "network_service_type", &networkServiceType, .of(from: .session, column: "urgency"),
                "Purpose of the transfer: background: no person waits for it; responsive_data: a person "
                    + "waits."
            )
            visitor.field(
                "earliest_begin_at", &earliestBeginAt, .of(column: "next_attempt_at"),
                "Time before which the job does not begin.")
            visitor.field(
                "deadline_at", &deadlineAt, .of(column: "expires_at"),
                "Time by which the job must have ended, running or not; after earliest_begin_at. "
                    + "timeout_for_resource applies as well: the earlier one counts.")
            visitor.field(
                "discretionary", &isDiscretionary, .of(from: .session),
                "Whether Ferry chooses the time to begin: an off-peak window (GET /v1/admin/windows) or idle "
                    + "capacity, early enough for the deadline and timeout_for_resource.")
            visitor.field(
                "waits_for_connectivity", &waitsForConnectivity, .of(from: .session, column: "awaits_host"),
                "Whether the job waits while its host cannot be reached; otherwise it uses attempts.")
            visitor.field(
                "confirm_before_begin", &confirmsBeforeBegin, .of(column: "asks"),
                "Whether a client must confirm that the job may begin (POST …/begin).")
            visitor.field(
                "expected_bytes_to_send", &expectedBytesToSend, 0...JSON.safeIntegerMax, .of(unit: .bytes),
                "Expected size of the body that is sent: for progress while the size is unknown, for the "
                    + "placement of the transfer, and for discretionary jobs.")
            visitor.field(
                "expected_bytes_to_receive", &expectedBytesToReceive, 0...JSON.safeIntegerMax,
                .of(unit: .bytes),
                "Expected size of the response's body: for progress while the size is unknown, for the "
                    + "placement of the transfer, for discretionary jobs, and for the space on the disk, "
                    + "which is checked before the request.")
            visitor.field(
                "timeout_for_resource", &timeoutForResource, 1...31_536_000,
                .of(from: .session, unit: .seconds, column: "expires_at"),
                "Time for all attempts together, from acceptance, or from earliest_begin_at if that is "
                    + "later.")
            visitor.field(
                "depends_on", &dependencies, ListRule(0...Limits.dependencyCountMax, of: NoRule()),
                .of(.repeated),
                "Jobs of the same tenant that must have ended before this one begins. In a batch, #/jobs/3 "
                    + "is the fourth job of the same batch, and must come before this one. {\"group\": "
                    + "\"name\"} is a group that must be finished; it has not succeeded if a job of it was "
                    + "cancelled, or has failed and was not retried.")
            visitor.field(
                "on_dependency_failure", &onDependencyFailure, .plain,
                "What happens to this job if one that it depends on does not succeed.")
        }

        public mutating func check(_ body: FieldDecoder) {
            if let deadlineAt, let earliestBeginAt, deadlineAt <= earliestBeginAt {
                body.fail("deadline_at", "invalid_combination", "This must be after earliest_begin_at.")
            }
            guard isDiscretionary else { return }
            body.context.inheritsDiscretionary = !body.isGiven("discretionary")
            let isResponsive = networkServiceType == .responsiveData
            guard isResponsive || !dependencies.isEmpty || confirmsBeforeBegin else { return }
            guard !body.context.inheritsDiscretionary else {
                isDiscretionary = false
                return
            }
            if isResponsive {
                body.fail(
                    "discretionary", "invalid_combination",
                    "A responsive_data job starts at once and cannot be discretionary.")
            }
            if confirmsBeforeBegin {
                body.fail(
                    "discretionary", "invalid_combination",
                    "A job with confirm_before_begin cannot be discretionary; leave one of them out.")
            }
            if !dependencies.isEmpty {
                body.fail(
                    "depends_on", "not_supported",
                    "Dependencies of a discretionary job are not supported yet by this version of Ferry.")
            }
        }
    }

    /// Purpose of a transfer (URLSession's `networkServiceType`), the least urgent first.
    public enum NetworkServiceType: String, FieldChoice {
        /// No person waits for it.
        case background
        case standard = "default"
        /// A person waits for it.
        case responsiveData = "responsive_data"

        public static var unsupportedValues: [String] {
            ["video", "voice", "av_streaming", "responsive_av", "call_signaling"]
        }
    }

    /// Behavior of a job if one that it depends on has not succeeded.
    public enum DependencyFailure: String, FieldChoice { case fail, ignore }
}

extension Identifier: FieldValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        guard let text = json.string else { return place.failType("a string", json) }
        let noun = Self.self == JobID.self ? "a job" : "such an object"
        return Self(text) ?? place.fail("invalid_value", "This is not the identifier of \(noun).")
    }
    public static func restore(_ json: JSON) -> Self? { json.string.flatMap { Self($0) } }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("type", "string"), .pattern("^\(identifierPattern)$")]
    }

    fileprivate static var identifierPattern: String {
        "\(Kind.prefix)[0-7][0-9A-Ha-hJKMNP-TV-Zjkmnp-tv-z]{25}"
    }
}

/// Reference to a job: its identifier, or in a batch `#/jobs/3`, the place of an earlier job.
struct JobReference: FieldValue {
    private static let placePrefix = "#/jobs/"

    let id: JobID

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> JobReference? {
        guard let text = json.string, text.hasPrefix(placePrefix) else {
            return JobID.decode(json, rule, place).map(JobReference.init)
        }
        let digits = text.utf8.dropFirst(placePrefix.utf8.count)
        guard digits.count < 6, digits.allSatisfy({ (0x30...0x39).contains($0) }),
            let job = Int(String(decoding: digits, as: UTF8.self)).flatMap(place.context.earlierJob)
        else {
            return place.fail("invalid_value", "This must be the place of an earlier job of the same batch.")
        }
        place.context.namedEarlierJobs.insert(job)
        return JobReference(id: job)
    }
    static func restore(_ json: JSON) -> JobReference? {
        guard let text = json.string, text.hasPrefix(placePrefix) else {
            return JobID.restore(json).map(JobReference.init)
        }
        // A job of a schedule's list.
        return UInt16(text.dropFirst(placePrefix.count)).flatMap { JobID(placeInList: Int($0)) }
            .map(JobReference.init)
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        guard let place = id.placeInList else { return writer.value(id) }
        writer.value("\(Self.placePrefix)\(place)")
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("type", "string"), .pattern("^(\(JobID.identifierPattern)|#/jobs/[0-9]{1,5})$")]
    }
}

extension JobID {
    /// Creates the identifier that stands for the job at this place of a schedule's list. In each run the
    /// new job's identifier replaces it. No job has it: its time of creation is thousands of years ahead.
    public init(placeInList place: Int) { self.init(high: .max, low: UInt64(place)) }

    /// The place in a schedule's list for which the identifier stands; `nil` for the identifier of a job.
    public var placeInList: Int? {
        high == .max && low < UInt64(Limits.scheduleJobCountMax) ? Int(low) : nil
    }
}
