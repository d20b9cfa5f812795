import Codings
import FerryCore

/// The content codings that a transfer asks for and decodes. Loop thread only.
///
/// A body with a coding that was not asked for, or with several, has to be stored as it is. Such a response
/// ends the transfer (`CurlError.unrequestedCoding`), and the request is sent again without codings.
final class Decoding {
    /// The codings, as in `Accept-Encoding`.
    let codings: [String]
    /// The decoder of the current response, or `nil` if its body has no coding.
    private var decoder: (any ContentDecoder)?
    private var turn: Int64 = 0
    private var byteCount = 0

    /// `nil` if no coding is to be asked for.
    init?(_ choice: JobSpec.AcceptEncoding) {
        let all = ContentCoding.allCases.map(\.rawValue)
        codings =
            switch choice {
            case .identity: []
            case .any: all
            case .gzip, .br: all.filter { $0 == choice.rawValue }
            }
        guard !codings.isEmpty else { return nil }
    }

    /// Whether the current response is being decoded.
    var isActive: Bool { decoder != nil }

    /// Takes the head of a response: one that has a coding has one that was asked for.
    func examine(_ head: ResponseHead) {
        let used = head.contentCodings
        decoder = used.count == 1 ? ContentCoding(rawValue: used[0])?.makeDecoder() : nil
    }

    /// Passes the decoded bytes of a body to `take`. Throws `response_too_large` if those of one turn of the
    /// loop are so many that decoding them blocks it: a few received bytes can become very many.
    func decode(
        _ bytes: UnsafeRawBufferPointer, turn: Int64,
        _ take: (UnsafeRawBufferPointer) throws(TransferError) -> Void
    ) throws(TransferError) {
        if turn != self.turn { (self.turn, byteCount) = (turn, 0) }
        var failure: TransferError?
        do throws(DecodingFailure) {
            try decoder?.decode(bytes) { piece in
                byteCount += piece.count
                do throws(TransferError) {
                    guard byteCount <= EngineLimits.decodedBurstMax else { throw Self.tooLarge }
                    try take(piece)
                } catch {
                    failure = error
                }
                return failure == nil
            }
        } catch {
            switch error {
            case .malformed: throw .undecodable
            case .outOfMemory:
                throw TransferError(
                    .internalError, "The node is out of memory.", phase: .receiving, isRetryable: true)
            }
        }
        if let failure { throw failure }
    }

    /// Throws `incomplete_body` if the body has ended before its end marker.
    func checkEnd() throws(TransferError) {
        guard decoder?.isComplete ?? true else {
            throw TransferError(
                .incompleteBody, "The coded body ended before its end marker.", phase: .receiving,
                isRetryable: true)
        }
    }

    private static let tooLarge = TransferError(
        .responseTooLarge, "The body grows too much while it is decoded.", phase: .receiving,
        isRetryable: false)
}

extension TransferError {
    /// The body is not in the coding that its head names.
    static let undecodable = TransferError(
        .responseInvalid, "The body cannot be decoded as its Content-Encoding says.", phase: .receiving,
        isRetryable: true)
}
