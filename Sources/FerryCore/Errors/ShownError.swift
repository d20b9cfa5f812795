extension TransferError {
    /// The `error` object of the API.
    public var json: [UInt8] { json(heldBy: nil) }

    /// Returns the `error` object of a job that waits. `heldBy`: the reason of `host_held`, `redirect_delay`
    /// for a redirect that asks for a delay, and `nil` otherwise.
    public func json(heldBy hold: WaitingReasonCode?) -> [UInt8] {
        ShownError(error: self, hold: hold).shown(reservingCapacity: 160)
    }
}

/// The `error` object of the API.
public struct ShownError: ShownObject {
    public static let summary = "Why a job or an attempt failed."
    public static let schemaName = "TransferError"

    let error: TransferError
    let hold: WaitingReasonCode?

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

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("code", \.error.code, "Stable code of the error. Later versions may add codes.")
        list.member("message", \.error.message, "The error as a sentence.")
        list.member("class", \.error.errorClass, "Class of the code.")
        list.member("phase", \.error.phase, "Phase of the attempt in which the error occurred.")
        list.member("retryable", \.error.isRetryable, "true if another attempt can succeed.")
        list.optional(
            "held_by", \.hold,
            "Why the job waits, as in waiting_reason. Only with the code host_held, and redirect_delay after "
                + "a redirect with Retry-After.")
    }
}
