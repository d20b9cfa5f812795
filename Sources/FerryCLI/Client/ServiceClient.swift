import Curl
import FerryCore

/// Client of the API: blocking requests on the calling thread.
struct ServiceClient {
    /// URL of the service without a slash at the end.
    let base: String
    private let key: String?

    init(base: WebURL, key: String?) {
        let text = base.string
        self.base = text.hasSuffix("/") ? String(text.dropLast()) : text
        self.key = key
    }

    /// A successful response (2xx).
    struct Response {
        let json: JSON
        let bytes: [UInt8]
        /// `true` if the service has repeated the response to an earlier request with the same idempotency
        /// key.
        var isReplay = false
    }

    /// A response with any status.
    struct RawResponse {
        let status: Int
        let body: [UInt8]
        let isTruncated: Bool
        var fields: [TransferRequest.Header] = []

        /// Returns the first value of the field `name`, without regard to case, or `nil` if there is none.
        func field(_ name: String) -> String? {
            let name = name.lowercased()
            return fields.first { $0.name.lowercased() == name }?.value
        }
    }

    /// The fields of every request for JSON.
    var headers: [TransferRequest.Header] { headers(accepting: "application/json") }

    private func headers(accepting accept: String) -> [TransferRequest.Header] {
        var headers: [TransferRequest.Header] = [.init("Accept", accept), .init("User-Agent", "ferry")]
        if let key { headers.append(.init("Authorization", "Bearer \(key)")) }
        return headers
    }

    /// Sends a request and parses the JSON of its response. `wait`: seconds for which the service may delay
    /// the response (`Prefer: wait`, RFC 7240 §4.3).
    ///
    /// Throws `unreachable` if there is no response or for 502, 503 and 504, `usage` for a rejected request
    /// body, otherwise `failed`.
    func send(
        _ method: String, _ path: String, body: [UInt8]? = nil, wait: Int? = nil,
        idempotencyKey: String? = nil, ifMatch: String? = nil
    ) throws(ClientFailure) -> Response {
        try parsed(
            perform(method, path, body: body, wait: wait, idempotencyKey: idempotencyKey, ifMatch: ifMatch))
    }

    /// Parses the JSON of a successful response. Throws the failure of others.
    func parsed(_ raw: RawResponse) throws(ClientFailure) -> Response {
        guard (200..<300).contains(raw.status) else { throw Self.failure(raw.status, raw.body) }
        guard !raw.isTruncated else {
            throw ClientFailure(.failed, "The response has more than 256 MiB. Request less.")
        }
        if raw.body.isEmpty { return Response(json: .null, bytes: []) }
        do {
            return Response(
                json: try JSON.parse(raw.body), bytes: raw.body,
                isReplay: raw.field("Idempotency-Replayed") == "true")
        } catch {
            throw ClientFailure(.failed, "\(base) did not send JSON (\(error.reason)). Check FERRY_URL.")
        }
    }

    /// Sends a request and returns the response with any status. `deadline`: milliseconds for the response,
    /// beyond `wait`. `mediaType`: that of the body; `accept`: that of the response. Throws `unreachable` if
    /// there is none.
    func perform(
        _ method: String, _ path: String, body: [UInt8]? = nil, wait: Int? = nil,
        idempotencyKey: String? = nil, ifMatch: String? = nil, mediaType: String = "application/json",
        accept: String = "application/json", deadline: Int = 60_000
    ) throws(ClientFailure) -> RawResponse {
        var request = BufferedRequest(url: base + path)
        request.method = method
        request.headers = headers(accepting: accept)
        if let idempotencyKey { request.headers.append(.init("Idempotency-Key", idempotencyKey)) }
        if let ifMatch { request.headers.append(.init("If-Match", ifMatch)) }
        if body != nil { request.headers.append(.init("Content-Type", mediaType)) }
        if let wait { request.headers.append(.init("Prefer", "wait=\(wait)")) }
        request.body = body
        request.byteLimit = 256 << 20
        request.deadline = deadline + (wait ?? 0) * 1_000
        do {
            let raw = try request.perform()
            return RawResponse(
                status: raw.status, body: raw.body, isTruncated: raw.isTruncated, fields: raw.headers)
        } catch {
            throw ClientFailure(.unreachable, "\(base) could not be reached: \(error)")
        }
    }

    /// Returns the failure for an error response: the problem's detail (RFC 9457) and the details of its
    /// fields.
    static func failure(_ status: Int, _ body: [UInt8]) -> ClientFailure {
        let kind: ClientFailure.Kind =
            switch status {
            case 502, 503, 504: .unreachable
            case 400, 413, 415, 422: .usage
            default: .failed
            }
        // Other servers than Ferry, such as a proxy, may send a body that is not JSON.
        guard let problem = try? JSON.parse(body), problem.members != nil else {
            let hint = (300..<400).contains(status) ? " (a redirect). Set FERRY_URL to the final URL" : ""
            return ClientFailure(kind, "The service responded with status \(status)\(hint).")
        }
        let detail = problem["detail"]?.string ?? problem["title"]?.string
        let summary = detail.map { printable($0) } ?? "The service refused the request."
        var lines = ["\(summary) (\(problem["code"]?.string ?? "status") \(status))"]
        let errors = (problem["errors"]?.array ?? []).map {
            printable("\($0["pointer"]?.string ?? "#"): \($0["detail"]?.string ?? "")")
        }
        // With a single error, the problem's detail is the same text.
        if errors != [summary] { lines += errors.map { "  \($0)" } }
        if status == 401 { lines.append("Set FERRY_KEY, or FERRY_KEY_FILE to a file with the key.") }
        return ClientFailure(kind, lines.joined(separator: "\n"))
    }
}
