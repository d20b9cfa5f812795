import FerryCore
import FerryEngine
import FerryStore
import FerryWebhooks
import Glibc
import Synchronization
import Sys

/// Whether the node can do its work, from what the parts know; never waits for one of them.
final class Health: Sendable {
    struct Check: Sendable {
        let name: String
        let isPassed: Bool
        /// False: the node works without it, only not as well.
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
    /// The first step of a shutdown: load balancers turn away.
    func beginDraining() { stage.withLock { $0 = .draining } }

    /// Bytes that an unprivileged process may still write where files are kept; nil when it cannot be asked.
    var freeBytes: Int64? {
        // As the engine has last seen it: a file system that hangs must not hold up whoever asks.
        if let room = engine?.rooms.first(where: { $0.path == dataDirectory }) { return room.free }
        var information = statvfs()
        guard statvfs(dataDirectory, &information) == 0 else { return nil }
        return Int64(information.f_bavail) * Int64(information.f_frsize)
    }

    /// Free space below which the node takes no traffic: a job's row and its file need some.
    private static let freeBytesMin: Int64 = 64 << 20

    /// Whether downloads wait because there is too little room for them, or their disk cannot be written to.
    var holdsDownloads: Bool { !downloads.isOpen }

    var checks: [Check] {
        let stage = stage.withLock { $0 }
        return [
            Check(name: "started", isPassed: stage != .starting),
            Check(name: "not_draining", isPassed: stage != .draining),
            Check(name: "database", isPassed: store.isReady),
            Check(name: "transfer_loops", isPassed: !hangs(engine?.snapshot.loopAgeSeconds)),
            Check(name: "webhook_loop", isPassed: !hangs(webhooks?.loopAgeSeconds)),
            Check(name: "disk", isPassed: (freeBytes ?? 0) >= Self.freeBytesMin),
            Check(name: "room_for_downloads", isPassed: downloads.hold != .noRoom, isRequired: false),
            Check(name: "reaches_hosts", isPassed: !store.isCutOff, isRequired: false),
            Check(name: "storage_writable", isPassed: downloads.hold != .unwritable, isRequired: false),
        ]
    }

    var isReady: Bool { checks.allSatisfy { $0.isPassed || !$0.isRequired } }

    /// A loop that has not come round for so long will not come round again.
    private static let loopAgeMax = 30.0
    private func hangs(_ loopAge: Double?) -> Bool { loopAge ?? 0 > Self.loopAgeMax }

    var isBroken: Bool { hangs(engine?.snapshot.loopAgeSeconds) || hangs(webhooks?.loopAgeSeconds) }
}

/// How fast things went over the last seconds: the difference of counters, sampled when somebody asks.
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

    /// Rates since the last sample that is at least a second old.
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
