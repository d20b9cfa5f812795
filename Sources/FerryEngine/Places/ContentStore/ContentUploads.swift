import Curl
import FerryCore
import Glibc
import OpenSSL
import Sys

/// A content on its way to the content store.
struct ContentUpload: Sendable {
    /// The bytes of a content.
    enum Bytes: Sendable {
        case memory([UInt8])
        /// An open file, and the object that keeps it open.
        case file(Int32, owner: any Sendable)
    }

    let bytes: Bytes
    let byteCount: Int64
    /// SHA-256 of all bytes in hexadecimal.
    let sha256: String
    let key: String
    /// Ends the upload.
    let stop: StopSignal
}

/// The threads of the content store, which send contents: small ones with one request, others in parts, each
/// of which is in memory while it is sent. Small ones have threads of their own: a request takes as long as
/// the store is far away. While the store cannot be used, contents are refused at once.
final class ContentUploads: Sendable {
    /// Bytes of a part, unless there would be too many of them.
    static let partByteCount: Int64 = 8 << 20
    /// Bytes of a small content at most.
    private static let smallByteCount: Int64 = 1 << 20
    /// Small contents, and parts of others, that are sent at once.
    private static let (smallThreadCount, threadCount) = (16, 4)

    private let client: ContentClient
    private let threads: ContentThreads
    private let smallThreads: ContentThreads
    private let stopping = StopSignal()

    /// Starts the threads.
    init(_ client: ContentClient) {
        self.client = client
        threads = ContentThreads(name: "content-big", count: Self.threadCount)
        smallThreads = ContentThreads(name: "content-out", count: Self.smallThreadCount)
    }

    /// Ends the running requests of this object, and the threads. What waits is refused.
    func stop() {
        stopping.set()
        threads.stop()
        smallThreads.stop()
    }

    /// Does work on one of the threads for large contents. Returns `false`, and drops the work, after `stop`.
    func run(_ work: @escaping @Sendable () -> Void) -> Bool { threads.run(work) }

    /// Sends a content. `done` is called once, on one of the threads: with the failure, or with `nil` as soon
    /// as the store has the whole object.
    func add(_ upload: ContentUpload, _ done: @escaping @Sendable (TransferError?) -> Void) {
        let threads = upload.byteCount <= Self.smallByteCount ? smallThreads : threads
        let isTaken = threads.run { [self] in
            guard client.isAvailable, !upload.stop.isSet, !stopping.isSet else {
                return done(.contentStoreUnavailable)
            }
            do throws(TransferError) {
                try send(upload)
                done(nil)
            } catch {
                done(error)
            }
        }
        if !isTaken { done(.contentStoreUnavailable) }
    }

    // MARK: Requests

    private func send(_ upload: ContentUpload) throws(TransferError) {
        if upload.byteCount <= Self.partByteCount {
            var request = ContentClient.Request("PUT", upload.key)
            request.body = try upload.bytes.read(0..<upload.byteCount)
            request.sha256 = upload.sha256
            _ = try answer(request, upload)
        } else {
            try sendInParts(upload)
        }
    }

    private func sendInParts(_ upload: ContentUpload) throws(TransferError) {
        var create = ContentClient.Request("POST", upload.key)
        create.query = "uploads="
        guard let id = CreatedUpload(try answer(create, upload).body)?.upload else {
            client.noteAnswer("It names no multipart upload.")
            throw .contentStoreUnavailable
        }
        do throws(TransferError) {
            let division = PartDivision(total: upload.byteCount, atLeast: Self.partByteCount)
            var tags: [String] = []
            for number in 1...division.count {
                var part = ContentClient.Request("PUT", upload.key)
                part.query = "partNumber=\(number)&uploadId=\(percentEncoded(id))"
                part.body = try upload.bytes.read(division.range(of: number))
                tags.append(try answer(part, upload).header("etag") ?? "")
            }
            try complete(upload, id, tags)
        } catch {
            // If this fails too, the sweep removes the upload.
            var abort = ContentClient.Request("DELETE", upload.key)
            abort.query = "uploadId=\(percentEncoded(id))"
            if client.isAvailable { _ = try? client.send(abort, stopping) }
            throw error
        }
    }

    private func complete(_ upload: ContentUpload, _ id: String, _ tags: [String]) throws(TransferError) {
        var complete = ContentClient.Request("POST", upload.key)
        complete.query = "uploadId=\(percentEncoded(id))"
        complete.body = PartList.completion(tags.map { ($0, "") })
        do throws(ContentClient.Failure) {
            let response = try client.send(complete, upload.stop)
            // A store may only find out after it has sent the status.
            guard CompletedUpload(response.body) == nil else { return }
            client.noteAnswer("It could not make an object of its parts.")
        } catch {
            guard case .missing = error else { throw .contentStoreUnavailable }
            // The response to an earlier such request was lost.
            let found = try answer(ContentClient.Request("HEAD", upload.key), upload)
            if found.header("content-length") == String(upload.byteCount) { return }
        }
        throw .contentStoreUnavailable
    }

    private func answer(
        _ request: ContentClient.Request, _ upload: ContentUpload
    ) throws(TransferError) -> BufferedRequest.Response {
        // The reason is in the log.
        do throws(ContentClient.Failure) {
            return try client.send(request, upload.stop)
        } catch {
            throw .contentStoreUnavailable
        }
    }
}

extension ContentUpload.Bytes {
    /// Returns some of the bytes. Throws `storage_failed`.
    func read(_ range: Range<Int64>) throws(TransferError) -> [UInt8] {
        switch self {
        case .memory(let bytes): return Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)])
        case .file(let descriptor, _):
            var failure: Int32 = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: range.count) { buffer, filled in
                while filled < range.count {
                    let count = pread(
                        descriptor, buffer.baseAddress.map { $0 + filled }, range.count - filled,
                        off_t(range.lowerBound) + filled)
                    if count < 0, errno == EINTR { continue }
                    guard count > 0 else {
                        failure = count < 0 ? errno : EIO
                        return
                    }
                    filled += count
                }
            }
            guard failure == 0 else { throw storageError(failure) }
            return bytes
        }
    }
}
