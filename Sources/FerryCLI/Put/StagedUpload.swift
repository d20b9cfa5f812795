import FerryCore
import Sys

/// An upload of the service (`/v1/uploads`) that gets the bytes of a local file, also over several
/// connections and runs of the command.
struct StagedUpload {
    /// State of the upload at the service.
    private enum Place {
        case unknown
        case absent
        /// Has so many bytes, and takes more.
        case at(Int64)
        /// Is complete, with so many bytes.
        case complete(Int64)
    }

    /// Bytes for the upload.
    struct Bytes {
        /// Offset of the first byte that can still be read.
        let first: Int64
        /// Offset after the last byte.
        let end: Int64
        /// `true` if the end is that of the upload.
        let isLast: Bool
        /// Copies bytes from an offset on and returns how many; 0 or less if they cannot be read.
        let copy: (Int64, UnsafeMutableRawBufferPointer) -> Int
    }

    /// Identifier of the complete upload; `nil` before.
    private(set) var id: String?

    private let service: ServiceClient
    private let path: String
    private let sent: (Int64) -> Void
    private var outage: Outage
    private var place = Place.unknown
    /// Largest offset that the service has named since the upload was absent.
    private var reached: Int64 = 0
    /// Requests since the last progress that were answered without an effect.
    private var fruitlessCount = 0

    /// `sent` gets the offset after the bytes that are sent.
    init(_ service: ServiceClient, name: String, outage: Outage, sent: @escaping (Int64) -> Void) {
        self.service = service
        self.outage = outage
        self.sent = sent
        path = "/v1/uploads/\(name)"
    }

    /// Returns when the upload has all of the bytes and, after the last ones, is complete. A broken
    /// connection is followed by a request for the offset, and by one that continues there.
    ///
    /// `failure`: error of the file that ended a request, or `nil`.
    mutating func add(_ bytes: Bytes, failure: () -> ClientFailure?) throws(ClientFailure) {
        while true {
            do throws(ClientFailure) {
                if try step(bytes) { return }
            } catch {
                if let own = failure() { throw own }
                place = .unknown
                try outage.wait(after: error)
            }
        }
    }

    /// Sends one request, or none. Returns `true` if the upload has the bytes.
    private mutating func step(_ bytes: Bytes) throws(ClientFailure) -> Bool {
        switch place {
        case .unknown: try ask(StagingRequest.idleSeconds(reading: bytes.end))
        case .complete(let end):
            guard end == bytes.end, bytes.isLast else {
                throw ClientFailure(.failed, "The service has another upload of the same name (\(path)).")
            }
            if id == nil { try readIdentifier() }
            return true
        case .absent:
            guard bytes.first == 0 else {
                throw ClientFailure(
                    .failed, "The service does not have the first bytes any more. Run the command again.")
            }
            try send(bytes, from: nil)
        case .at(let offset) where offset == bytes.end && !bytes.isLast: return true
        case .at(let offset):
            guard offset >= bytes.first, offset <= bytes.end else {
                throw ClientFailure(
                    .failed,
                    "The service has \(offset) bytes of an upload that continues at \(bytes.first).")
            }
            try send(bytes, from: offset)
        }
        return false
    }

    /// Requests the offset. The service ends an earlier request for the upload, so that it is final.
    private mutating func ask(_ seconds: Int) throws(ClientFailure) {
        let response = try service.perform("HEAD", path, deadline: seconds * 1_000)
        switch response.status {
        case 404: (place, reached) = (.absent, 0)
        case 200..<300: try take(response)
        default: throw ServiceClient.failure(response.status, response.body)
        }
        outage.contact.note()
    }

    /// Takes the state that a response names.
    private mutating func take(_ response: ServiceClient.RawResponse) throws(ClientFailure) {
        guard let offset = response.field("Upload-Offset").flatMap({ Int64($0) }) else {
            throw ClientFailure(.failed, "The service did not name the offset of \(path). Check FERRY_URL.")
        }
        place = response.field("Upload-Complete") == "?1" ? .complete(offset) : .at(offset)
        if offset > reached {
            (reached, fruitlessCount) = (offset, 0)
            outage.end()
        }
        sent(offset)
    }

    /// Sends the bytes from an offset on; `nil` creates the upload.
    private mutating func send(_ bytes: Bytes, from offset: Int64?) throws(ClientFailure) {
        let begin = offset ?? 0
        let request = StagingRequest(
            service: service, method: offset == nil ? "PUT" : "PATCH", path: path, offset: begin,
            byteCount: bytes.end - begin, completes: bytes.isLast)
        let response = try request.perform(copy: bytes.copy, sent: sent)
        guard (200..<300).contains(response.status) else { return try refused(response) }
        try take(response)
        guard bytes.isLast else { return }
        id = (try? JSON.parse(response.body))?["id"]?.string
    }

    private mutating func refused(_ response: ServiceClient.RawResponse) throws(ClientFailure) {
        let failure = ServiceClient.failure(response.status, response.body)
        let code = (try? JSON.parse(response.body))?["code"]?.string
        fruitlessCount += 1
        if response.status < 500 { outage.contact.note() }
        switch (response.status, code) {
        case (429, _):
            place = .unknown
            try outage.wait(after: failure, isTemporary: true)
        // Two commands that send the same file would end each other's requests forever.
        case (409, "upload_superseded"):
            throw ClientFailure(.failed, "Another command sends this file to the same URL.")
        // An upload expires, and a request before may have had an effect after its connection broke.
        case (404, _) where fruitlessCount < 3: (place, reached) = (.absent, 0)
        case (409, "upload_exists") where fruitlessCount < 3: place = .unknown
        case (409, _) where fruitlessCount < 3 && response.field("Upload-Offset") != nil:
            try take(response)
        default: throw failure
        }
    }

    private mutating func readIdentifier() throws(ClientFailure) {
        id = try identifier(of: service.send("GET", path).json)
        outage.end()
    }
}
