/// Values that objects of a body inherit where it names none.
public protocol FieldDefaults: AnyObject, Sendable {
    /// The values by the names of the fields, without those that are objects.
    var fieldValues: [String: any FieldValue] { get }
}

/// Resume data of a body: opens a text, and keeps what it means.
protocol Resumption: AnyObject {}

/// Settings and results of decoding one body, besides its values. One body, one thread.
public final class FieldContext {
    /// Errors found so far.
    public let errors: ValidationErrors
    /// Abilities of this node.
    public let node: NodeAbilities
    /// The egress policy: returns why a URL is not accepted, or `nil`.
    public let refusal: (EndpointAddress) -> String?
    /// The time zones that this node knows, or `nil` to accept any name.
    public let zones: (any TimeZoneSource)?
    /// `true` if the patch is that of an answer.
    public var isAnswer = false
    /// Kind of the job, once it is read.
    public var kind: JobKind?
    /// Values that objects inherit where the body names none, or `nil`: those of a job's session.
    public let defaults: (any FieldDefaults)?
    /// `true` if the request's header fields may include `Host`: the job is submitted with an admin key.
    public var mayNameHost = false
    /// `true` if a patch may send the job's `Host` to another server: it comes from an admin.
    public var mayMoveHost = false
    /// Returns the job with this number in the batch if it precedes this one.
    public var earlierJob: (Int) -> JobID? = { _ in nil }
    /// `true` if `schedule.discretionary` is that of the session: it yields to what excludes it.
    var inheritsDiscretionary = false
    /// Jobs of the batch that this one names by their numbers.
    var namedEarlierJobs: Set<JobID> = []

    /// `true` if the job names an object of a store, whose key signs its requests.
    var namesObject = false
    /// URL and method of the job's request, once they are read.
    public var requestURL: WebURL?
    public var requestMethod: String?
    /// The fields of the last `headers` of the body, or `nil` if there was none.
    var headerMap: (path: String, lines: [NameValuePair])?
    /// Meaning of the resume data of the body; set by `JobRequest`.
    var resumption: (any Resumption)?
    /// Bytes of an inline source or body as they will be sent, or `nil`.
    public var payload: [UInt8]?
    private var inherited: [String: any FieldValue]?

    /// Creates a context without errors.
    public init(
        node: NodeAbilities = NodeAbilities(), defaults: (any FieldDefaults)? = nil,
        zones: (any TimeZoneSource)? = nil,
        refusal: @escaping (EndpointAddress) -> String? = { _ in nil }
    ) {
        errors = ValidationErrors()
        self.node = node
        self.defaults = defaults
        self.refusal = refusal
        self.zones = zones
    }

    /// Returns the inherited value of the field with this name, or `nil` if nothing is inherited.
    func inherited<Value: FieldValue>(_ name: String, as type: Value.Type) -> Value? {
        guard let defaults else { return nil }
        let values = inherited ?? defaults.fieldValues
        inherited = values
        return values[name] as? Value
    }
}

/// Copies the values of an object's fields by name.
struct FieldCapture: FieldVisitor {
    private var values: [String: any FieldValue] = [:]

    /// Returns the values of the fields that are not objects.
    static func values(of object: some FieldObject) -> [String: any FieldValue] {
        var object = object
        var capture = FieldCapture()
        object.fields(&capture)
        return capture.values
    }

    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) { values[name] = value }
}
