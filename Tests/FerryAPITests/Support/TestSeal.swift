import FerryCore

extension SecretSeal {
    /// Inverts every byte, after a marker byte.
    static let inverted = SecretSeal(
        seal: { [1] + $0.map { ~$0 } }, open: { $0.first == 1 ? $0.dropFirst().map { ~$0 } : nil })
}
