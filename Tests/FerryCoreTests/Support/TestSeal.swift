import FerryCore

extension SecretSeal {
    /// A seal for tests, which inverts every byte after a mark.
    static let inverted = SecretSeal(
        seal: { [1] + $0.map { ~$0 } }, open: { $0.first == 1 ? $0.dropFirst().map { ~$0 } : nil })
}
