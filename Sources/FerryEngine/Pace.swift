/// A limit of bytes a second for one transfer: what has moved is a debt that time pays off.
struct Pace {
    private let bytesPerNanosecond: Double
    private var debt = 0.0
    private var last: Int64

    init(bytesPerSecond: Int64, now: Int64) {
        bytesPerNanosecond = Double(max(1, bytesPerSecond)) / 1e9
        last = now
    }

    /// 0 when the bytes may move, which then counts; otherwise the nanoseconds until it is worth asking
    /// again.
    mutating func take(_ count: Int, now: Int64) -> Int64 {
        debt = max(0, debt - Double(now - last) * bytesPerNanosecond)
        last = now
        guard debt > 0 else {
            debt = Double(count)
            return 0
        }
        return max(1_000_000, Int64(min(debt / bytesPerNanosecond, 1e18)))
    }
}
