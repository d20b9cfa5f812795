import Curl
import FerryCore
import Glibc
import Sys

/// Content of a job, which the service keeps.
struct Content {
    let service: ServiceClient
    let path: String
    /// Expected size in bytes; `nil` if the service did not report it.
    let byteCount: Int64?
    /// `true` if the job has ended: a cut connection is then opened again, and the transfer continues.
    var isComplete = true

    /// Seconds for which the service may be unreachable: longer than a restart.
    private static let outageMax: Int64 = 15
    /// Seconds without a byte after which a connection is taken as cut. The service answers within 120 s also
    /// where another node has the content, and ends followed content after 600 s without a byte.
    private var idleTimeout: Int { isComplete ? 130 : 660 }

    /// Saves the file of a succeeded job and says where it is.
    static func save(
        _ job: JSON, id: String, in file: SavedFile, service: ServiceClient, console: Console
    ) throws(ClientFailure) {
        let size = job["result"]?["size"]?.integer
        let content = Content(
            service: service, path: "/v1/jobs/\(percentEncoded(id))/content", byteCount: size)
        let suggested = LocalFile.safeName(job["response"]?["suggested_filename"]?.string) ?? "download"
        if let path = try file.save(content, of: id, suggested: suggested, to: console) {
            console.message("\(path.text): \(byteCountText(size ?? 0)) (\(id))")
        }
    }

    /// Passes all bytes to `write` in order. `write` returns `false` if it cannot take more. After a cut,
    /// requests the rest with `Range` and `If-Range` (RFC 9110 §13.1.5, §14.2) if the service sent a strong
    /// entity tag.
    func fetch(_ write: @escaping (UnsafeRawBufferPointer) -> Bool) throws(ClientFailure) {
        let delegate = ContentDelegate(write)
        var awaySince: Int64?
        while true {
            let begin = monotonicNanoseconds()
            let before = delegate.byteCount
            guard let cut = try attempt(delegate) else { break }
            if delegate.byteCount > before { awaySince = nil }
            let since = awaySince ?? begin
            awaySince = since
            let canContinue = delegate.byteCount == 0 || delegate.entityTag != nil
            let away = (monotonicNanoseconds() - since) / 1_000_000_000
            guard isComplete, canContinue, away < Self.outageMax else { throw cut }
            if monotonicNanoseconds() - begin < 250_000_000 { poll(nil, 0, 250) }
        }
        if let byteCount, byteCount != delegate.byteCount {
            throw ClientFailure(.failed, "The file has \(delegate.byteCount) bytes instead of \(byteCount).")
        }
    }

    /// Requests the bytes that are missing. Returns `nil` if all have come, or the failure of a connection
    /// that was cut. Throws after other failures.
    private func attempt(_ delegate: ContentDelegate) throws(ClientFailure) -> ClientFailure? {
        var request = TransferRequest(url: service.base + path)
        request.headers = service.headers.filter { $0.name != "Accept" }
        request.receiveBufferSize = 262_144
        request.idleTimeout = idleTimeout
        if delegate.byteCount > 0, let tag = delegate.entityTag {
            request.headers.append(.init("Range", "bytes=\(delegate.byteCount)-"))
            request.headers.append(.init("If-Range", tag, hasOctets: true))
        }
        delegate.begin()
        do throws(CurlError) {
            try BlockingTransfer.perform(request, delegate: delegate)
        } catch {
            throw ClientFailure(.unreachable, "\(service.base) could not be reached: \(error.text)")
        }
        guard !delegate.isRefused else {
            throw ClientFailure(.failed, "The file could not be written completely.")
        }
        guard !delegate.hasOtherContent else {
            throw ClientFailure(.failed, "The content at the service changed during the download.")
        }
        if let status = delegate.status, status != 200, status != 206 {
            let failure = ServiceClient.failure(status, delegate.problem)
            // A proxy answers for a service that restarts.
            guard failure.kind == .unreachable, delegate.byteCount > 0 else { throw failure }
            return failure
        }
        return delegate.error.map {
            ClientFailure(.unreachable, "The download from the service failed: \($0.text)")
        }
    }
}

private final class ContentDelegate: EasyDelegate {
    private let write: (UnsafeRawBufferPointer) -> Bool
    private(set) var status: Int?
    private(set) var problem: [UInt8] = []
    /// Bytes that `write` has taken.
    private(set) var byteCount: Int64 = 0
    /// Strong entity tag of the first response with content, one character an octet; `nil` if it has none.
    private(set) var entityTag: String?
    private(set) var isRefused = false
    /// `true` if a response does not continue the bytes that have come.
    private(set) var hasOtherContent = false
    private(set) var error: CurlError?
    /// Fields of the current response.
    private var fields: [String: String] = [:]
    /// Bytes of the current response to drop because they have come before; `nil` before its first bytes.
    private var repeated: Int64?

    init(_ write: @escaping (UnsafeRawBufferPointer) -> Bool) { self.write = write }

    /// Prepares the delegate for the next request.
    func begin() {
        (status, problem, error, fields, repeated) = (nil, [], nil, [:], nil)
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        var text = String(String.UnicodeScalarView(line.map { Unicode.Scalar($0) }))
        while text.unicodeScalars.last?.properties.isWhitespace == true { text.unicodeScalars.removeLast() }
        if line.starts(with: "HTTP/".utf8) {
            let words = text.split(separator: " ")
            status = words.count > 1 ? Int(words[1]) : nil
            fields = [:]
        } else if let (name, value) = JobOptions.pair(text, separator: ":") {
            fields[name.lowercased()] = value
        }
        return true
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard status == 200 || status == 206 else {
            problem += bytes.prefix(max(0, 65_536 - problem.count))
            return .proceed
        }
        guard var rest = repeated ?? firstRepeated() else {
            hasOtherContent = true
            return .abort
        }
        let dropped = min(rest, Int64(bytes.count))
        rest -= dropped
        repeated = rest
        let new = UnsafeRawBufferPointer(rebasing: bytes[Int(dropped)...])
        guard !new.isEmpty else { return .proceed }
        isRefused = !write(new)
        byteCount += Int64(new.count)
        return isRefused ? .abort : .proceed
    }

    func finished(_ outcome: TransferOutcome) { error = outcome.error }

    /// Returns how many bytes of the response have come before, or `nil` if the response is of other content.
    private func firstRepeated() -> Int64? {
        let tag = fields["etag"].flatMap { $0.utf8.first == UInt8(ascii: "\"") ? $0 : nil }
        if byteCount == 0 {
            entityTag = tag
            return status == 200 ? 0 : nil
        }
        if status == 206 {
            let begins = fields["content-range"]?.hasPrefix("bytes \(byteCount)-") == true
            return begins && (tag == nil || tag == entityTag) ? 0 : nil
        }
        // A proxy may drop `Range`.
        return tag != nil && tag == entityTag ? byteCount : nil
    }
}
