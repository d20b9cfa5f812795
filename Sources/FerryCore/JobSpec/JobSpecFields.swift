extension JobSpec {
    /// The values of a spec with their default values; `JobSpec` describes them.
    struct Fields: Sendable, Equatable {
        var kind = JobKind.download
        var session = SessionName.standard
        var group: String?
        var description: String?
        var metadata: [Pair] = []
        var request = RequestSpec()
        var mirrors: [String] = []
        var destination: Destination?
        var source: Source?
        var integrity = Integrity()
        var redirects = Redirects()
        var accept = Acceptance()
        var onChallenge = ChallengePolicy.fail
        var onURLExpired = ExpiredURLPolicy.fail
        var questions = QuestionRules()
        var schedule = Schedule()
        var network = Network()
        var retry = RetryRules()
        var segmentCountMax = 1
        var lowSpeed = LowSpeed()
        var webhook: WebhookSpec?
        var startsSuspended = false
        var declinesAcknowledgement = false
        var boxedAcknowledgement: Boxed<AcknowledgementRules>?
        var boxedAnswers: Boxed<JobAnswers>?
        var boxedOccurrence: Boxed<ScheduleOccurrence>?
        var boxedUnique: Boxed<UniqueRule>?
    }

    /// The fields of equal copies. A small job passes its spec on some eighty times. Unchecked: the fields
    /// change only while one spec alone refers to the object (`ownStorage`).
    final class Storage: @unchecked Sendable {
        fileprivate(set) var fields: Fields

        init(_ fields: Fields) { self.fields = fields }

        /// Default values.
        static let standard = Storage(Fields())
    }

    /// The storage for a change: a copy if others share it.
    private var ownStorage: Storage {
        mutating get {
            if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.fields) }
            return storage
        }
    }

    /// Kind of the job.
    public var kind: JobKind {
        get { storage.fields.kind }
        _modify { yield &ownStorage.fields.kind }
    }
    /// Name of the session.
    public var session: String {
        get { storage.fields.session }
        _modify { yield &ownStorage.fields.session }
    }
    /// Name of the group, or `nil`.
    public var group: String? {
        get { storage.fields.group }
        _modify { yield &ownStorage.fields.group }
    }
    /// Text of the client, or `nil`.
    public var description: String? {
        get { storage.fields.description }
        _modify { yield &ownStorage.fields.description }
    }
    /// Name-value pairs of the client, in its order; names are unique.
    public var metadata: [Pair] {
        get { storage.fields.metadata }
        _modify { yield &ownStorage.fields.metadata }
    }
    /// The request.
    public var request: RequestSpec {
        get { storage.fields.request }
        _modify { yield &ownStorage.fields.request }
    }
    /// Other URLs of the same bytes, in the client's order; only for downloads by GET.
    public var mirrors: [String] {
        get { storage.fields.mirrors }
        _modify { yield &ownStorage.fields.mirrors }
    }
    /// Destination of a download, or `nil` if Ferry stores the file; of a `data` job, or `nil` if its body
    /// needs no file.
    public var destination: Destination? {
        get { storage.fields.destination }
        _modify { yield &ownStorage.fields.destination }
    }
    /// Source of an upload; `nil` for other kinds.
    public var source: Source? {
        get { storage.fields.source }
        _modify { yield &ownStorage.fields.source }
    }
    /// Required size and digests.
    public var integrity: Integrity {
        get { storage.fields.integrity }
        _modify { yield &ownStorage.fields.integrity }
    }
    /// Rules for redirects.
    public var redirects: Redirects {
        get { storage.fields.redirects }
        _modify { yield &ownStorage.fields.redirects }
    }
    /// Responses that are accepted.
    public var accept: Acceptance {
        get { storage.fields.accept }
        _modify { yield &ownStorage.fields.accept }
    }
    /// Behavior after an authentication challenge.
    public var onChallenge: ChallengePolicy {
        get { storage.fields.onChallenge }
        _modify { yield &ownStorage.fields.onChallenge }
    }
    /// Behavior after a 401, 403 or 410.
    public var onURLExpired: ExpiredURLPolicy {
        get { storage.fields.onURLExpired }
        _modify { yield &ownStorage.fields.onURLExpired }
    }
    /// Rules for questions.
    public var questions: QuestionRules {
        get { storage.fields.questions }
        _modify { yield &ownStorage.fields.questions }
    }
    /// Begin date, timeouts and order.
    public var schedule: Schedule {
        get { storage.fields.schedule }
        _modify { yield &ownStorage.fields.schedule }
    }
    /// Use of the network.
    public var network: Network {
        get { storage.fields.network }
        _modify { yield &ownStorage.fields.network }
    }
    /// Rules for further attempts.
    public var retry: RetryRules {
        get { storage.fields.retry }
        _modify { yield &ownStorage.fields.retry }
    }
    /// Largest number of segments that are fetched at once, at least 1; more than 1 only for downloads by
    /// GET.
    public var segmentCountMax: Int {
        get { storage.fields.segmentCountMax }
        _modify { yield &ownStorage.fields.segmentCountMax }
    }
    /// When a connection counts as too slow.
    public var lowSpeed: LowSpeed {
        get { storage.fields.lowSpeed }
        _modify { yield &ownStorage.fields.lowSpeed }
    }
    /// Webhook of the job, or `nil`.
    public var webhook: WebhookSpec? {
        get { storage.fields.webhook }
        _modify { yield &ownStorage.fields.webhook }
    }
    /// `true` if the job is accepted as suspended.
    public var startsSuspended: Bool {
        get { storage.fields.startsSuspended }
        _modify { yield &ownStorage.fields.startsSuspended }
    }
    /// `true` if the client has declined acknowledgement, even for an endpoint that requires it.
    public var declinesAcknowledgement: Bool {
        get { storage.fields.declinesAcknowledgement }
        _modify { yield &ownStorage.fields.declinesAcknowledgement }
    }
    var boxedAcknowledgement: Boxed<AcknowledgementRules>? {
        get { storage.fields.boxedAcknowledgement }
        _modify { yield &ownStorage.fields.boxedAcknowledgement }
    }
    var boxedAnswers: Boxed<JobAnswers>? {
        get { storage.fields.boxedAnswers }
        _modify { yield &ownStorage.fields.boxedAnswers }
    }
    var boxedOccurrence: Boxed<ScheduleOccurrence>? {
        get { storage.fields.boxedOccurrence }
        _modify { yield &ownStorage.fields.boxedOccurrence }
    }
    var boxedUnique: Boxed<UniqueRule>? {
        get { storage.fields.boxedUnique }
        _modify { yield &ownStorage.fields.boxedUnique }
    }
}
