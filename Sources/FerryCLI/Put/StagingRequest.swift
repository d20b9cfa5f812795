import Curl
import FerryCore

/// A request that sends bytes to a staged upload, read while they are sent.
struct StagingRequest {
    let service: ServiceClient
    let method: String
    let path: String
    /// Place of the first byte in the upload, and number of bytes.
    let offset: Int64
    let byteCount: Int64
    /// `true` if the bytes complete the upload.
    let completes: Bool

    /// Returns the seconds without a byte after which a connection is taken as cut. At the end of an upload
    /// that a restart has interrupted, the service reads its file before it answers: at 50 MiB/s or more.
    static func idleSeconds(reading byteCount: Int64) -> Int { 120 + Int(byteCount / (50 << 20)) }

    /// Sends the bytes. `copy` copies bytes from an offset of the upload on and returns how many; 0 or less
    /// ends the request. `sent` gets the offset after the bytes that are sent.
    ///
    /// Throws `unreachable` if there is no response.
    func perform(
        copy: @escaping (Int64, UnsafeMutableRawBufferPointer) -> Int, sent: @escaping (Int64) -> Void
    ) throws(ClientFailure) -> ServiceClient.RawResponse {
        var request = TransferRequest(url: service.base + path)
        request.method = method
        request.headers = service.headers
        request.headers.append(.init("Upload-Complete", completes ? "?1" : "?0"))
        if method == "PATCH" {
            request.headers.append(.init("Upload-Offset", "\(offset)"))
            request.headers.append(.init("Content-Type", "application/partial-upload"))
        }
        request.body = .known(byteCount)
        request.sendBufferSize = 262_144
        request.idleTimeout = Self.idleSeconds(reading: offset == 0 ? 0 : offset + byteCount)
        request.connectTimeout = 5_000
        let delegate = StagingDelegate(offset..<(offset + byteCount), copy, sent)
        do throws(CurlError) {
            try BlockingTransfer.perform(request, delegate: delegate)
        } catch {
            throw ClientFailure(.unreachable, "\(service.base) could not be reached: \(error.text)")
        }
        // A response ends the request, also one that comes before all bytes are sent.
        if let response = delegate.response { return response }
        let text = delegate.error?.text ?? "no response"
        throw ClientFailure(.unreachable, "The connection to \(service.base) failed: \(text)")
    }
}

private final class StagingDelegate: EasyDelegate {
    private static let bodyByteCountMax = 65_536

    private let range: Range<Int64>
    private let copy: (Int64, UnsafeMutableRawBufferPointer) -> Int
    private let sent: (Int64) -> Void
    private var place: Int64
    private var status: Int?
    private var fields: [TransferRequest.Header] = []
    private var body: [UInt8] = []
    private var isWhole = false
    private(set) var error: CurlError?

    init(
        _ range: Range<Int64>, _ copy: @escaping (Int64, UnsafeMutableRawBufferPointer) -> Int,
        _ sent: @escaping (Int64) -> Void
    ) {
        self.range = range
        self.copy = copy
        self.sent = sent
        place = range.lowerBound
    }

    /// The response; `nil` if its head did not arrive, or if a success was cut.
    var response: ServiceClient.RawResponse? {
        guard let status, isWhole, error == nil || status >= 300 else { return nil }
        return ServiceClient.RawResponse(status: status, body: body, isTruncated: false, fields: fields)
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        let text = String(decoding: line, as: UTF8.self)
        if text.hasPrefix("HTTP/") {
            let words = text.split(separator: " ")
            let code = words.count > 1 ? Int(words[1]) : nil
            status = code.flatMap { $0 >= 200 ? $0 : nil }
            (fields, isWhole) = ([], false)
        } else if text.isEmpty {
            isWhole = status != nil
        } else if let (name, value) = JobOptions.pair(text, separator: ":") {
            fields.append(.init(name, value))
        }
        return true
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        body += bytes.prefix(max(0, Self.bodyByteCountMax - body.count))
        return .proceed
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        let wanted = Int(min(Int64(buffer.count), range.upperBound - place))
        guard wanted > 0 else { return .bytes(0) }
        let count = copy(place, UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]))
        guard count > 0 else { return .abort }
        place += Int64(count)
        sent(place)
        return .bytes(count)
    }

    func rewindBody() -> Bool {
        place = range.lowerBound
        return true
    }

    func finished(_ outcome: TransferOutcome) { error = outcome.error }
}
