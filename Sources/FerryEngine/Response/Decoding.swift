import Curl
import FerryCore

/// The content codings that a transfer asks for and libcurl decodes. Loop thread only.
///
/// libcurl decodes every coding it knows as soon as one was asked for. A body with a coding that was not
/// asked for has to be stored as it is. Such a response ends the transfer (`CurlError.unrequestedCoding`),
/// and the request is sent again without codings.
final class Decoding {
    /// The codings, as in `Accept-Encoding`.
    let codings: [String]
    /// Whether the current response is being decoded.
    private(set) var isActive = false
    private var turn: Int64 = 0
    private var byteCount = 0

    /// `nil` if no coding is to be asked for, or if this libcurl can decode none of them.
    init?(_ choice: JobSpec.AcceptEncoding) {
        // Without libcurl no engine runs, so no coding is lost.
        let possible = (try? CurlRuntime.loaded.get().contentCodings) ?? []
        codings =
            switch choice {
            case .identity: []
            case .any: possible
            case .gzip, .br: possible.filter { $0 == choice.rawValue }
            }
        guard !codings.isEmpty else { return nil }
    }

    /// Notes whether a response has a coding; it is then one that was asked for.
    func examine(_ head: ResponseHead) { isActive = !head.contentCodings.isEmpty }

    /// Counts decoded bytes of one turn of the loop. Throws `response_too_large` if there are so many that
    /// decoding them blocks the loop: a few received bytes can become very many.
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
