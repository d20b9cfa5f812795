/// The `error` of a job or an attempt, as it is stored and shown. Codes that only another version knows stay
/// as they are.
public struct ErrorRecord: StoredFields {
    public static let summary = "Why a job or an attempt failed."
    public static let schemaName = "TransferError"

    /// Stable code, its class, and the phase of the attempt.
    public private(set) var code = OpenChoice(TransferError.Code.internalError)
    public private(set) var errorClass = OpenChoice(TransferError.Class.internalError)
    public private(set) var phase = OpenChoice(TransferError.Phase.waiting)
    /// The error as a sentence.
    public private(set) var message = ""
    /// `true` if another attempt can succeed.
    public private(set) var isRetryable = false
    /// Reason of the wait, for `host_held`; `redirect_delay` after a redirect with `Retry-After`. Otherwise
    /// `nil`.
    public private(set) var hold: OpenChoice<WaitingReasonCode>?

    public init() {}

    /// Creates the record of an error. `hold`: as the property.
    public init(_ error: TransferError, heldBy hold: WaitingReasonCode? = nil) {
        code = OpenChoice(error.code)
        errorClass = OpenChoice(error.errorClass)
        phase = OpenChoice(error.phase)
        message = error.message
        isRetryable = error.isRetryable
        self.hold = hold.map { OpenChoice($0) }
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "code", &code, .of(required: true), "Stable code of the error. Later versions may add codes.")
        visitor.field("message", &message, .any, .of(required: true), "The error as a sentence.")
        visitor.field("class", &errorClass, .of(required: true), "Class of the code.")
        visitor.field(
            "phase", &phase, .of(required: true), "Phase of the attempt in which the error occurred.")
        visitor.field(
            "retryable", &isRetryable, .of(required: true), "true if another attempt can succeed.")
        visitor.shown(
            "held_by", &hold, NoRule(),
            "Why the job waits, as in waiting_reason. Only with the code host_held, and redirect_delay after "
                + "a redirect with Retry-After.")
    }
}

extension Stored<ErrorRecord> {
    /// Makes the stored form of an error. `hold`: as in `ErrorRecord`.
    public convenience init(_ error: TransferError, heldBy hold: WaitingReasonCode? = nil) {
        self.init(ErrorRecord(error, heldBy: hold))
    }

    /// `TransferError.attemptLost`.
    public static let attemptLost = Stored(TransferError.attemptLost)
}

/// The `error` object of the API.
public struct ShownError: ShownObject {
    public static var summary: String { ErrorRecord.summary }
    public static var schemaName: String { ErrorRecord.schemaName }

    private let record: ErrorRecord

    init(_ record: ErrorRecord) { self.record = record }

    /// `x-codes`: the table of docs/errors.md.
    public static var schemaRules: [JSON.Member] {
        let codes = TransferError.Code.allCases.map { code in
            JSON.object([
                JSON.Member("code", .string(code.rawValue)),
                JSON.Member("class", .string(code.errorClass.rawValue)),
                JSON.Member("phases", .array(code.phases.map { .string($0.rawValue) })),
                JSON.Member("retryable", .string(code.repetition.rawValue)),
            ])
        }
        return [JSON.Member("x-codes", .array(codes))]
    }

    public static func members(_ list: inout some MemberVisitor<Self>) { list.fields(\.record) }
}
