import Curl
import FerryCore

/// The content codings that a transfer asks for, and libcurl undoes. Loop thread only.
///
/// libcurl decodes whatever it can once anything was asked for. A body with a coding that nobody asked for is
/// to be kept as it is, so such an answer ends the transfer (`CurlError.unaskedCoding`), and is asked for
/// again without codings.
final class Decoding {
    /// As in `Accept-Encoding`.
    let codings: [String]
    /// Whether the current answer is being decoded.
    private(set) var isActive = false
    private var turn: Int64 = 0
    private var byteCount = 0

    /// Nil when nothing is to be asked for, also because this libcurl could not undo it.
    init?(_ choice: JobSpec.AcceptEncoding) {
        let possible = (try? CurlRuntime.loaded.get().contentCodings) ?? []
        codings =
            switch choice {
            case .identity: []
            case .any: possible
            case .gzip, .br: possible.filter { $0 == choice.rawValue }
            }
        guard !codings.isEmpty else { return nil }
    }

    /// An answer came: if it has a coding it is one that was asked for.
    func examine(_ head: ResponseHead) { isActive = !head.contentCodings.isEmpty }

    /// Counts bytes of one turn of the loop. Throws when so many come at once that decoding them keeps
    /// everybody waiting: few received bytes can become very many.
    func take(_ count: Int, turn: Int64) throws(TransferError) {
        if turn != self.turn { (self.turn, byteCount) = (turn, 0) }
        byteCount += count
        guard byteCount <= EngineLimits.decodedBurstMax else {
            throw TransferError(
                .responseTooLarge, "The body grows too much while it is decoded.", phase: .receiving,
                isRetryable: false)
        }
    }
}
