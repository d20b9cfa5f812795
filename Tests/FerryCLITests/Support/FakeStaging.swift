import FerryCore
import Synchronization

/// A fake service that stages uploads, and whose jobs end as soon as they are submitted.
final class FakeStaging: Sendable {
    struct Upload: Sendable {
        var id: String
        var body = ""
        var isComplete = false
    }
    struct State: Sendable {
        var uploads: [String: Upload] = [:]
        /// Job of each idempotency key.
        var jobs: [String: String] = [:]
        /// State of each job.
        var states: [String: String] = [:]
        /// State of jobs that are submitted.
        var end = "succeeded"
        var uploadCount = 0
    }

    let state = Mutex(State())

    /// Returns the service. `script`: answers requests before the uploads do, unless it returns `nil`.
    func service(
        _ script: @escaping @Sendable (FakeService.Request) -> FakeService.Answer? = { _ in nil }
    ) throws -> FakeService {
        try FakeService(answering: { [self] request in script(request) ?? answer(request) })
    }

    /// Returns the response to a request.
    func answer(_ request: FakeService.Request) -> FakeService.Answer {
        let parts = request.path.split(separator: "/").map(String.init)
        switch parts.dropFirst().first {
        case "uploads": return upload(request, parts[2])
        case "jobs" where request.method == "POST": return submit(request)
        default:
            let job = state.withLock { Self.job(parts[2], $0.states[parts[2]] ?? "deleted") }
            return .init(
                status: 200,
                body: parts.last == "events" ? "event: snapshot\ndata: {\"job\":\(job)}\n\n" : job)
        }
    }

    static func job(_ id: String, _ state: String) -> String {
        let error = #"{"code":"unacceptable_status","message":"Status 500.","phase":"responding"}"#
        return #"{"id":"\#(id)","state":"\#(state)","kind":"upload","result":{"size":5},"#
            + #""error":\#(state == "failed" ? error : "null"),"response":{"status":200}}"#
    }

    private func submit(_ request: FakeService.Request) -> FakeService.Answer {
        state.withLock { state in
            let key = request.header("idempotency-key") ?? ""
            if let id = state.jobs[key] {
                return .init(
                    status: 201, body: Self.job(id, "queued"), fields: ["Idempotency-Replayed: true"])
            }
            let id = "job_\(state.jobs.count + 1)"
            state.jobs[key] = id
            state.states[id] = state.end
            return .init(status: 201, body: Self.job(id, "queued"))
        }
    }

    private func upload(_ request: FakeService.Request, _ name: String) -> FakeService.Answer {
        state.withLock { state in
            let gone = FakeService.Answer(status: 404, body: #"{"code":"not_found","detail":"Not there."}"#)
            switch request.method {
            case "PUT":
                state.uploadCount += 1
                state.uploads[name] = Upload(id: "upl_\(state.uploadCount)")
            case "PATCH":
                guard let upload = state.uploads[name] else { return gone }
                guard request.header("upload-offset") == "\(upload.body.utf8.count)" else {
                    return Self.answer(
                        upload, status: 409, #"{"code":"offset_mismatch","detail":"Not there."}"#)
                }
            case "DELETE":
                let found = state.uploads.first { $0.key == name || $0.value.id == name }
                guard let found else { return gone }
                state.uploads[found.key] = nil
                return .init(status: 204)
            default: return state.uploads[name].map { Self.answer($0) } ?? gone
            }
            state.uploads[name]?.body += request.body
            state.uploads[name]?.isComplete = request.header("upload-complete") == "?1"
            return state.uploads[name].map { Self.answer($0) } ?? gone
        }
    }

    static func answer(_ upload: Upload, status: Int = 200, _ body: String? = nil) -> FakeService.Answer {
        .init(
            status: status, body: body ?? #"{"id":"\#(upload.id)"}"#,
            fields: [
                "Upload-Offset: \(upload.body.utf8.count)",
                "Upload-Complete: \(upload.isComplete ? "?1" : "?0")",
            ])
    }
}
