import Curl
import FerryCore
import Synchronization

/// An object of the content store, opened for reading: the bytes come with one request, and wait in memory
/// until they are read. A read at another offset begins another request. One thread at a time reads; any
/// thread may release the object, which ends the request.
package final class ObjectReader: Sendable {
    private struct State {
        /// Offset of the first byte in `chunks`.
        var offset: Int64 = 0
        var chunks: [[UInt8]] = []
        /// Bytes of the first chunk that were read.
        var readCount = 0
        var byteCount = 0
        /// The request that brings the bytes; `nil` if none runs.
        var fetch: ObjectFetch?
        var isPaused = false
        /// Requests in a row that have brought no bytes.
        var failureCount = 0
        var hasFailed = false
        var waiting: [@Sendable () -> Void] = []

        mutating func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
            var count = 0
            while count < buffer.count, let first = chunks.first {
                let some = first[readCount...].prefix(buffer.count - count)
                UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyBytes(from: some)
                count += some.count
                readCount += some.count
                if readCount == first.count {
                    chunks.removeFirst()
                    readCount = 0
                }
            }
            byteCount -= count
            offset += Int64(count)
            return count
        }
    }

    /// Bytes that wait in memory at most.
    private static let waitingByteCountMax = 1 << 20
    private static let failureCountMax = 4
    /// Nanoseconds before a request that has failed is repeated.
    private static let pause: Int64 = 300_000_000

    private let key: String
    /// Number of bytes.
    package let byteCount: Int64
    private let client: ContentClient
    private let state = Mutex(State())

    init(_ key: String, byteCount: Int64, _ client: ContentClient) {
        self.key = key
        self.byteCount = byteCount
        self.client = client
    }

    deinit { state.withLock { $0.fetch }?.cancel() }

    /// Reads bytes from `offset` on. Finds none while they are on their way. Does not block.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> OpenedContent.Read {
        guard offset < byteCount else { return .bytes(0) }
        let (result, former, begins, resumes) = state.withLock { state in
            if state.hasFailed { return (OpenedContent.Read.failed, ObjectFetch?.none, false, false) }
            var former: ObjectFetch?
            if offset != state.offset {
                former = state.fetch
                let waiting = state.waiting
                state = State()
                (state.offset, state.waiting) = (offset, waiting)
            }
            let count = state.take(into: buffer)
            let resumes = state.isPaused && state.byteCount <= Self.waitingByteCountMax / 2
            if resumes { state.isPaused = false }
            let begins = count == 0 && state.fetch == nil
            if begins { state.fetch = ObjectFetch(client, self) }
            return (count > 0 ? .bytes(count) : .none, former, begins, resumes)
        }
        former?.cancel()
        let fetch = state.withLock { $0.fetch }
        if begins { fetch?.begin(key, from: offset) }
        if resumes { fetch?.resume() }
        return result
    }

    /// Calls `body` once, on any thread, as soon as a read that found no bytes can be repeated.
    package func whenReadable(_ body: @escaping @Sendable () -> Void) {
        let isReadable = state.withLock { state in
            if state.byteCount > 0 || state.hasFailed { return true }
            state.waiting.append(body)
            return false
        }
        if isReadable { body() }
    }

    // MARK: Called by the request, on the thread of the loop

    fileprivate func receive(_ bytes: UnsafeRawBufferPointer, from fetch: ObjectFetch) -> BodyVerdict {
        let (verdict, waiting) = state.withLock { state -> (BodyVerdict, [@Sendable () -> Void]) in
            guard state.fetch === fetch else { return (.abort, []) }
            guard state.byteCount < Self.waitingByteCountMax else {
                state.isPaused = true
                return (.pause, [])
            }
            state.chunks.append(Array(bytes))
            state.byteCount += bytes.count
            state.failureCount = 0
            defer { state.waiting = [] }
            return (.proceed, state.waiting)
        }
        for one in waiting { one() }
        return verdict
    }

    /// The request has ended. `mayRepeat`: `false` if another one cannot bring the bytes either.
    fileprivate func ended(_ fetch: ObjectFetch, mayRepeat: Bool, _ multi: CurlMulti?) {
        let (next, waiting) = state.withLock {
            state -> ((ObjectFetch, Int64)?, [@Sendable () -> Void]) in
            guard state.fetch === fetch else { return (nil, []) }
            state.fetch = nil
            let end = state.offset + Int64(state.byteCount)
            guard end < byteCount else { return (nil, []) }
            state.failureCount += 1
            if mayRepeat, state.failureCount <= Self.failureCountMax, multi != nil {
                let next = ObjectFetch(client, self)
                state.fetch = next
                return ((next, end), [])
            }
            state.hasFailed = true
            defer { state.waiting = [] }
            return (nil, state.waiting)
        }
        for one in waiting { one() }
        guard let (next, end) = next, let multi else { return }
        multi.after(nanoseconds: Self.pause) { [key] in next.begin(key, from: end) }
    }
}

/// A request for the bytes of an object from an offset on.
///
/// Unchecked: only the thread of the loop uses the variables.
private final class ObjectFetch: EasyDelegate, @unchecked Sendable {
    private let client: ContentClient
    private weak var reader: ObjectReader?
    private weak var multi: CurlMulti?
    private var transfer: Transfer?
    private var isCancelled = false
    private var correction = StoreCorrection()
    private var status = 0
    private var fields: [String: String] = [:]
    /// Status of a response that has the bytes.
    private var expected = 200
    /// Begins the request anew.
    private var again: (() -> Void)?

    init(_ client: ContentClient, _ reader: ObjectReader) {
        self.client = client
        self.reader = reader
    }

    /// Begins the request. Any thread.
    func begin(_ key: String, from offset: Int64) {
        var request = ContentClient.Request("GET", key)
        if offset > 0 { request.headers = [.init("Range", "bytes=\(offset)-")] }
        let isAccepted = client.loop.perform { [self, request] multi in
            expected = offset > 0 ? 206 : 200
            again = { [weak self] in self?.begin(key, from: offset) }
            guard !isCancelled else { return }
            self.multi = multi
            guard let (correction, sent) = client.transferRequest(request) else { return end(false) }
            self.correction = correction
            do throws(CurlError) {
                transfer = try multi.start(sent, delegate: self)
            } catch {
                end(false)
            }
        }
        if !isAccepted { reader?.ended(self, mayRepeat: false, nil) }
    }

    /// Lets the store send more. Any thread.
    func resume() { client.loop.perform { [self] _ in transfer?.resume() } }

    /// Ends the request. Any thread.
    func cancel() {
        client.loop.perform { [self] _ in
            isCancelled = true
            transfer?.cancel()
            transfer = nil
        }
    }

    private func end(_ mayRepeat: Bool) {
        transfer = nil
        reader?.ended(self, mayRepeat: mayRepeat, multi)
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        let text = String(decoding: line, as: UTF8.self)
        if text.hasPrefix("HTTP/") {
            fields = [:]
            status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        } else if let colon = text.firstIndex(of: ":") {
            fields[text[..<colon].lowercased()] = String(text[text.index(after: colon)...].drop { $0 == " " })
        }
        return true
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        // The document with the store's reason is not needed.
        guard status == expected else { return .proceed }
        return reader?.receive(bytes, from: self) ?? .abort
    }

    func finished(_ outcome: TransferOutcome) {
        if status != expected, outcome.error == nil,
            client.correct(
                correction, status, region: fields["x-amz-bucket-region"], date: fields["date"])
        {
            transfer = nil
            again?()
            return
        }
        let isLost = outcome.error != nil || status >= 500 || status == 429
        end(isLost || status == expected)
    }
}
