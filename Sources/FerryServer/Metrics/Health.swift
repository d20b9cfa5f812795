import FerryCore
import FerryEngine
import FerryStore
import FerryWebhooks
import Glibc
import Synchronization
import Sys

/// Whether the node can work, computed from the state of its parts without waiting for any of them.
final class Health: Sendable {
    struct Check: Sendable {
        let name: String
        let isPassed: Bool
        /// `false` if the node stays ready when this check fails.
        var isRequired = true
    }

    private enum Stage: Int, Sendable { case starting, ready, draining }
    private let stage = Mutex(Stage.starting)
    private let store: Store
    private let engine: Engine?
    private let webhooks: WebhookSender?
    private let downloads: DownloadAdmission
    private let dataDirectory: String

    init(
        store: Store, engine: Engine?, webhooks: WebhookSender?, downloads: DownloadAdmission,
        _ configuration: Configuration
    ) {
        self.store = store
        self.engine = engine
        self.webhooks = webhooks
        self.downloads = downloads
        dataDirectory = configuration.dataDirectory
    }

    func becomeReady() { stage.withLock { $0 = .ready } }
    /// Makes the node unready, the first step of a shutdown, so that load balancers stop using it. A drain by
    /// an operator does so too.
    func beginDraining() { stage.withLock { $0 = .draining } }

    /// Bytes that an unprivileged process may still write to the data directory's disk; `nil` if it cannot be
    /// determined.
    var freeBytes: Int64? {
        // Last measured by the engine, because a file system that hangs must not block the caller.
        if let own = engine?.storageSpaces.first(where: { $0.path == dataDirectory }) { return own.free }
        var information = statvfs()
        guard statvfs(dataDirectory, &information) == 0 else { return nil }
        return Int64(information.f_bavail) * Int64(information.f_frsize)
    }

    /// Free space in bytes below which the node is not ready: a job's row and its file need some.
    private static let freeBytesMin: Int64 = 64 << 20

    /// `true` if downloads wait because there is too little space or their disk cannot be written to.
    var holdsDownloads: Bool { !downloads.isOpen }

    var checks: [Check] {
        let stage = stage.withLock { $0 }
        return [
            Check(name: "started", isPassed: stage != .starting),
            Check(name: "not_draining", isPassed: stage != .draining && !store.isDraining),
            Check(name: "database", isPassed: store.isReady),
            Check(name: "transfer_loops", isPassed: !hangs(engine?.snapshot.loopAgeSeconds)),
            Check(name: "webhook_loop", isPassed: !hangs(webhooks?.loopAgeSeconds)),
            Check(name: "disk", isPassed: (freeBytes ?? 0) >= Self.freeBytesMin),
            Check(name: "room_for_downloads", isPassed: downloads.hold != .noSpace, isRequired: false),
            Check(name: "reaches_hosts", isPassed: !store.isCutOff, isRequired: false),
            Check(name: "storage_writable", isPassed: downloads.hold != .unwritable, isRequired: false),
        ]
    }

    var isReady: Bool { checks.allSatisfy { $0.isPassed || !$0.isRequired } }

    /// A loop without a turn for this many seconds will not recover.
    private static let loopAgeMax = 30.0
    private func hangs(_ loopAge: Double?) -> Bool { loopAge ?? 0 > Self.loopAgeMax }

    var isBroken: Bool { hangs(engine?.snapshot.loopAgeSeconds) || hangs(webhooks?.loopAgeSeconds) }
}

/// Throughput over the last seconds: differences of counters, sampled at each request.
final class Throughput: Sendable {
    struct Rates: Sendable {
        var bytesReceived = 0.0
        var bytesSent = 0.0
        var jobsFinished = 0.0
    }
    private struct State {
        var at: Int64
        var received: Int64 = 0
        var sent: Int64 = 0
        var finished: Int64 = 0
        var rates = Rates()
    }
    private let state = Mutex(State(at: monotonicNanoseconds()))

    /// Returns the rates since the last sample that is at least one second old.
    func rates(received: Int64, sent: Int64, finished: Int64) -> Rates {
        let now = monotonicNanoseconds()
        return state.withLock { state in
            let seconds = Double(now - state.at) / 1e9
            guard seconds >= 1 else { return state.rates }
            state.rates = Rates(
                bytesReceived: Double(received - state.received) / seconds,
                bytesSent: Double(sent - state.sent) / seconds,
                jobsFinished: Double(finished - state.finished) / seconds)
            state.at = now
            state.received = received
            state.sent = sent
            state.finished = finished
            return state.rates
        }
    }
}
