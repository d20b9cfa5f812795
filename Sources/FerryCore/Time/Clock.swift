/// The current time, as a port: the real clock follows the database's clock, tests set it by hand.
public protocol WallClock: Sendable {
    /// Returns the current time.
    func now() -> Timestamp
}
