import FerryCore
import Synchronization
import TestSupport

/// A server of the IETF draft of resumable uploads and of tus, whose connections break as a test says.
final class UploadOrigin: Sendable {
    /// Fate of a request with a body.
    enum Fate: Sendable {
        case whole
        /// The connection is reset after so many bytes of the body.
        case cut(Int)
        /// All bytes arrive, and the response does not.
        case silent
        /// The head and body of this response is sent after the body, which is dropped.
        case answer(String)
    }

    /// Behavior of the server.
    struct Rules: Sendable {
        /// Versions of the draft for which a 104 is sent.
        var versions: Set<String> = ["6"]
        /// `Upload-Limit`, or `nil`.
        var limit: String?
        var appendByteCountMax = Int.max
        /// `Location` of an upload, by its path.
        var location: @Sendable (String) -> String = { $0 }
        var speaksTus = false
        /// Fates of requests with a body, in order.
        var fates: [Fate] = []
        /// Answers to requests without a body, in order and by method, in place of the server's own.
        var answers: [(method: String, answer: String)] = []
    }

    private struct State {
        var rules: Rules
        var uploads: [String: (bytes: [UInt8], isComplete: Bool)] = [:]
        var count = 0
    }

    private let state: Mutex<State>
    private let server = Mutex<ScriptedOrigin?>(nil)

    init(_ rules: Rules = Rules()) throws {
        state = Mutex(State(rules: rules))
        let origin = try ScriptedOrigin { [self] connection in
            while let request = connection.readRequest(), handle(request, connection) {}
        }
        server.withLock { $0 = origin }
    }

    func stop() { server.withLock { $0 }?.stop() }

    var url: String { server.withLock { $0?.url } ?? "" }
    var requests: [ScriptedOrigin.Request] { server.withLock { $0?.requests } ?? [] }
    var methods: [String] { requests.map(\.method) }

    /// Bytes of the uploads that are complete.
    var completed: [[UInt8]] {
        state.withLock { state in state.uploads.values.filter(\.isComplete).map(\.bytes) }
    }

    /// Numbers of bytes of the other uploads.
    var unfinished: [Int64] {
        state.withLock { state in
            state.uploads.values.filter { !$0.isComplete }.map { Int64($0.bytes.count) }
        }
    }

    /// Sets the fates of the next requests with a body.
    func set(fates: [Fate]) { state.withLock { $0.rules.fates = fates } }

    // MARK: Requests

    private func handle(_ request: ScriptedOrigin.Request, _ connection: OriginConnection) -> Bool {
        let canned = state.withLock { state -> String? in
            guard let first = state.rules.answers.first, first.method == request.method else { return nil }
            return state.rules.answers.removeFirst().answer
        }
        if let canned {
            if request.header("expect") == nil { _ = connection.readBody(of: request) }
            return connection.send(canned)
        }
        let isOfTus = request.header("tus-resumable") != nil
        switch request.method {
        case "OPTIONS": return connection.send(answer(204, ["Upload-Limit: \(limit ?? "min-size=0")"]))
        case "HEAD": return connection.send(head(request, isOfTus))
        case "DELETE":
            state.withLock { _ = $0.uploads.removeValue(forKey: request.path) }
            return connection.send(answer(204, []))
        case "PATCH" where request.path.hasPrefix("/u/"): return append(request, connection, isOfTus)
        default: return create(request, connection, isOfTus)
        }
    }

    private var limit: String? { state.withLock { $0.rules.limit } }

    private func answer(_ status: Int, _ fields: [String], isHead: Bool = false) -> String {
        let length = status == 204 || isHead ? [] : ["Content-Length: 0"]
        return (["HTTP/1.1 \(status) x"] + fields + length).map { $0 + "\r\n" }.joined() + "\r\n"
    }

    private func head(_ request: ScriptedOrigin.Request, _ isOfTus: Bool) -> String {
        guard let upload = state.withLock({ $0.uploads[request.path] }) else {
            return answer(404, [], isHead: true)
        }
        let protocolFields =
            isOfTus ? ["Tus-Resumable: 1.0.0"] : ["Upload-Complete: \(upload.isComplete ? "?1" : "?0")"]
        return answer(204, ["Upload-Offset: \(upload.bytes.count)"] + protocolFields, isHead: true)
    }

    private func create(
        _ request: ScriptedOrigin.Request, _ connection: OriginConnection, _ isOfTus: Bool
    ) -> Bool {
        let rules = state.withLock { $0.rules }
        let path = state.withLock { state in
            state.count += 1
            let path = "/u/\(state.count)"
            state.uploads[path] = ([], false)
            return path
        }
        let location = "Location: \(rules.location(path))"
        if isOfTus {
            return connection.send(
                answer(201, rules.speaksTus ? ["Tus-Resumable: 1.0.0", location] : []))
        }
        if request.header("upload-complete") == "?0" {
            return connection.send(answer(201, [location, "Upload-Complete: ?0"]))
        }
        if let version = request.header("upload-draft-interop-version"), rules.versions.contains(version) {
            let limits = rules.limit.map { "Upload-Limit: \($0)\r\n" } ?? ""
            connection.send(
                "HTTP/1.1 104 x\r\nUpload-Draft-Interop-Version: \(version)\r\n\(location)\r\n\(limits)\r\n")
        }
        return receive(request, connection, to: path, isLast: true, isOfTus)
    }

    private func append(
        _ request: ScriptedOrigin.Request, _ connection: OriginConnection, _ isOfTus: Bool
    ) -> Bool {
        let upload = state.withLock { $0.uploads[request.path] }
        let length = Int(request.header("content-length") ?? "") ?? 0
        let type = isOfTus ? "application/offset+octet-stream" : "application/partial-upload"
        var refusal: String?
        if upload == nil {
            refusal = answer(404, [])
        } else if request.header("content-type") != type {
            refusal = answer(415, [])
        } else if request.header("upload-offset") != upload.map({ String($0.bytes.count) }) {
            refusal = answer(409, ["Upload-Offset: \(upload?.bytes.count ?? 0)", "Upload-Complete: ?0"])
        } else if length > state.withLock({ $0.rules.appendByteCountMax }) {
            refusal = answer(
                413, ["Upload-Limit: max-append-size=\(state.withLock { $0.rules.appendByteCountMax })"])
        }
        if let refusal {
            if request.header("expect") == nil { _ = connection.readBody(of: request) }
            return connection.send(refusal)
        }
        let isLast = request.header("upload-complete") == "?1"
        return receive(request, connection, to: request.path, isLast: isLast, isOfTus)
    }

    private func receive(
        _ request: ScriptedOrigin.Request, _ connection: OriginConnection, to path: String, isLast: Bool,
        _ isOfTus: Bool
    ) -> Bool {
        let fate = state.withLock { state in
            state.rules.fates.isEmpty ? Fate.whole : state.rules.fates.removeFirst()
        }
        let length = Int(request.header("content-length") ?? "") ?? 0
        if case .cut(0) = fate {
            connection.reset()
            return false
        }
        if request.header("expect") != nil { connection.send("HTTP/1.1 100 Continue\r\n\r\n") }
        let bytes: [UInt8] =
            if case .cut(let count) = fate { connection.read(count) } else { connection.read(length) }
        if case .answer(let text) = fate { return connection.send(text) }
        let total = state.withLock { state in
            state.uploads[path, default: ([], false)].bytes += bytes
            if bytes.count == length, isLast { state.uploads[path]?.isComplete = true }
            return state.uploads[path]?.bytes.count ?? 0
        }
        switch fate {
        case .cut:
            connection.reset()
            return false
        case .silent: return false
        case .whole, .answer: break
        }
        if isOfTus {
            return connection.send(answer(204, ["Tus-Resumable: 1.0.0", "Upload-Offset: \(total)"]))
        }
        return connection.send(
            answer(
                isLast ? 201 : 204, ["Upload-Complete: \(isLast ? "?1" : "?0")", "Upload-Offset: \(total)"]))
    }
}

/// Keeps the uploads that attempts note, as the store would.
final class UploadNotes: RequestMarker {
    private let notes = Mutex<[ResumableUpload?]>([])
    private let marks = Mutex<Int>(0)
    var all: [ResumableUpload?] { notes.withLock { $0 } }
    var markCount: Int { marks.withLock { $0 } }
    /// The request with which the next attempt begins.
    var next: NextRequest? { all.last.flatMap(\.self).map { .upload($0) } }

    func mark(_ attempt: Attempt, reply: @escaping @Sendable (Bool) -> Void) {
        marks.withLock { $0 += 1 }
        reply(true)
    }
    func note(_ upload: ResumableUpload?, of attempt: Attempt) { notes.withLock { $0.append(upload) } }
}
