/// Result of the checks of a change.
///
/// `If-Match` is the last check (RFC 9110 §13.2.1): a request that fails without the field fails in the same
/// way with it. The checks before it: the request is readable (400, 413, 415), the object exists (404), the
/// body is valid (422), and the object's state allows the change (409).
public enum ChangeCheck<Change: Sendable>: Sendable {
    /// All checks have passed.
    case allowed(Change)
    /// The body is not valid for the object.
    case invalid(InvalidFields)
    /// The object's state or `If-Match` does not allow the change.
    case refused(StoreError)

    /// Checks the body with `change`, which returns the changed object.
    public init(_ change: () throws(InvalidFields) -> Change) {
        do throws(InvalidFields) {
            self = .allowed(try change())
        } catch {
            self = .invalid(error)
        }
    }

    /// Checks the object's state; `refusal` returns `nil` if it allows the change.
    public func checkingState(_ refusal: (Change) -> StoreError?) -> ChangeCheck {
        guard case .allowed(let change) = self, let error = refusal(change) else { return self }
        return .refused(error)
    }

    /// Evaluates `If-Match` for an object with revisions. `revision`: the one that the field names, or `nil`
    /// if any will do.
    public func matching(_ revision: Int32?, of current: Int32) -> ChangeCheck {
        guard case .allowed = self, let revision, revision != current else { return self }
        return .refused(.stale(revision: current))
    }

    /// Evaluates `If-Match` for an object without revisions; `holds` returns `true` if it matches.
    public func matching(_ holds: () -> Bool) -> ChangeCheck {
        guard case .allowed = self, !holds() else { return self }
        return .refused(.stale(revision: nil))
    }
}
