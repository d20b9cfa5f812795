/// Time, as a port: the real one follows the database's clock, tests set it by hand.
package protocol WallClock: Sendable {
    func now() -> Timestamp
}
