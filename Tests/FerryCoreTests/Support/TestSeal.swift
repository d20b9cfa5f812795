import FerryCore

extension SecretSeal {
    /// For tests: every byte inverted, behind a mark.
    static let inverted = SecretSeal(
        seal: { [1] + $0.map { ~$0 } }, open: { $0.first == 1 ? $0.dropFirst().map { ~$0 } : nil })
}
