import Curl
import FerryAPI
import FerryCore
import FerryEngine
import FerryScheduler
import FerryStore
import FerryWebhooks
import Synchronization

/// The page `/metrics`: counters and current numbers of all parts. Sends no query to the database.
final class MetricsPage: Sendable {
    private let parts: NodeParts
    private let requests = Mutex<APIMetrics?>(nil)
    private let waiting = Mutex<WaitingRequests?>(nil)

    /// Current numbers of requests that wait on purpose.
    struct WaitingRequests: Sendable {
        let listenerCount: @Sendable () -> Int
        let followerCount: @Sendable () -> Int
        let forwardedCount: @Sendable () -> Int
        let waitCount: @Sendable () -> Int
    }

    init(_ parts: NodeParts) { self.parts = parts }

    func connect(_ metrics: APIMetrics, waiting: WaitingRequests) {
        requests.withLock { $0 = metrics }
        self.waiting.withLock { $0 = waiting }
    }

    func text() -> [UInt8] {
        var page = PrometheusText()
        // A node that needs libcurl does not start without it.
        let library = (try? CurlRuntime.loaded.get().version) ?? "unknown"
        page.add(
            .gauge, "ferry_build_info", "Versions of Ferry and libcurl as labels; always 1.",
            [([("version", ferryVersion), ("libcurl", library)], 1)])
        page.add(.gauge, "ferry_ready", "1 if this node is ready.", parts.health.isReady ? 1 : 0)
        appendEngine(to: &page)
        appendStore(to: &page)
        appendContentStore(to: &page)
        appendSchedules(to: &page)
        appendWebhooks(to: &page)
        if let requests = requests.withLock({ $0 }) { appendRequests(requests, to: &page) }
        if let waiting = waiting.withLock({ $0 }) {
            page.add(
                .gauge, "ferry_event_streams", "Open event streams.", waiting.listenerCount())
            page.add(
                .gauge, "ferry_content_followers", "Requests that follow the content of unfinished jobs.",
                waiting.followerCount())
            page.add(
                .gauge, "ferry_forwarded_requests", "Requests of clients that other nodes answer.",
                waiting.forwardedCount())
            page.add(
                .gauge, "ferry_waiting_requests", "API requests that wait for a job (Prefer: wait).",
                waiting.waitCount())
        }
        ProcessMetrics.append(to: &page)
        return Array(page.text.utf8)
    }

    private func appendEngine(to page: inout PrometheusText) {
        page.add(.gauge, "ferry_worker_slots", "Slots of this node.", parts.slots.capacity)
        page.add(
            .gauge, "ferry_worker_slots_free", "Slots without a running attempt.", parts.slots.freeCount)
        page.add(
            .gauge, "ferry_attempts_stalled", "Attempts without progress whose slot another job may use.",
            parts.slots.lentCount)
        guard let counts = parts.engine?.snapshot else { return }
        appendStorage(parts.engine?.storageSpaces ?? [], to: &page)
        page.add(.gauge, "ferry_attempts_running", "Running attempts of this node.", counts.live)
        page.add(.counter, "ferry_attempts_started_total", "Started attempts.", counts.attemptsBegun)
        var results: [(labels: [(String, String)], value: Double)] = [
            ([("result", "succeeded"), ("class", "none")], Double(counts.attemptsSucceeded)),
            ([("result", "cancelled"), ("class", "none")], Double(counts.attemptsCancelled)),
            ([("result", "released"), ("class", "none")], Double(counts.attemptsReleased)),
        ]
        for errorClass in TransferError.Class.allCases {
            results.append(
                (
                    [("result", "failed"), ("class", errorClass.rawValue)],
                    Double(counts.attemptsFailed[errorClass, default: 0])
                ))
        }
        page.add(.counter, "ferry_attempts_ended_total", "Ended attempts by result and error class.", results)
        page.add(
            .counter, "ferry_transferred_bytes_total", "Body bytes of attempts by direction.",
            [
                ([("direction", "received")], Double(counts.bytesReceived)),
                ([("direction", "sent")], Double(counts.bytesSent)),
            ])
        page.add(
            .counter, "ferry_connections_total", "Connections opened, and requests that reused a connection.",
            [
                ([("connection", "opened")], Double(counts.connectionsOpened)),
                ([("connection", "reused")], Double(counts.connectionsReused)),
            ])
        page.add(
            .counter, "ferry_transfer_responses_total",
            "Responses to attempts by HTTP version; 1.1 includes 1.0.",
            counts.responses.map { ([("protocol", $0.version)], Double($0.count)) })
        page.add(
            .gauge, "ferry_event_loop_turn_age_seconds",
            "Seconds since the last turn of the slowest event loop.", counts.loopAgeSeconds)
        page.add(
            .gauge, "ferry_file_work_age_seconds",
            "Seconds that a file thread has spent on its current task; the longest of all threads.",
            counts.fileWorkSeconds)
    }

    private func appendStorage(_ reports: [StorageSpaceReport], to page: inout PrometheusText) {
        let values = { (value: (StorageSpaceReport) -> Int64) in
            reports.map { ([("path", $0.path)], Double(value($0))) }
        }
        page.add(.gauge, "ferry_storage_free_bytes", "Free bytes by storage root.", values(\.free))
        page.add(
            .gauge, "ferry_storage_expected_bytes", "Free bytes that running downloads will write.",
            values(\.promised))
        page.add(
            .gauge, "ferry_storage_reserve_bytes",
            "Free space that downloads must leave (FERRY_STORAGE_RESERVE).", values(\.reserve))
        page.add(
            .gauge, "ferry_downloads_blocked",
            "1 if this node starts no downloads: too little space, or a disk that is not writable.",
            parts.health.holdsDownloads ? 1 : 0)
    }

    private func appendStore(to page: inout PrometheusText) {
        let counts = parts.store.metrics
        page.add(
            .gauge, "ferry_database_up", "1 if the database has confirmed this node's lease recently.",
            parts.store.isReady ? 1 : 0)
        page.add(
            .gauge, "ferry_database_round_trip_seconds", "Duration of the last heartbeat.",
            parts.store.roundTripSeconds ?? 0)
        page.add(
            .counter, "ferry_log_lines_dropped_total",
            "Log lines dropped because they were not read in time.",
            Int64(LogSink.standardError.lostCount))
        page.add(
            .gauge, "ferry_node_cut_off", "1 if this node reaches no host while other nodes do.",
            parts.store.isCutOff ? 1 : 0)
        page.add(.counter, "ferry_jobs_submitted_total", "Jobs accepted by this node.", counts.submittedJobs)
        page.add(
            .counter, "ferry_jobs_leased_on_submission_total",
            "Jobs leased in the transaction that inserted them, without waiting in the queue.",
            counts.leasedAtOnceJobs)
        page.add(
            .counter, "ferry_submission_commits_total", "Transactions that inserted jobs.",
            counts.submitBatches)
        page.add(
            .counter, "ferry_submission_commit_seconds_total", "Seconds in transactions that inserted jobs.",
            counts.submitSeconds)
        page.add(
            .counter, "ferry_results_committed_total", "Committed results of attempts.",
            counts.recordedResults)
        page.add(.counter, "ferry_jobs_claimed_total", "Jobs leased from the queue.", counts.claimedJobs)
        page.add(
            .counter, "ferry_dispatcher_commits_total", "Transactions that committed results or leased jobs.",
            counts.dispatchBatches)
        page.add(
            .counter, "ferry_dispatcher_commit_seconds_total",
            "Seconds in transactions that committed results or leased jobs.",
            counts.dispatchSeconds)
        page.add(
            .counter, "ferry_finished_jobs_removed_total",
            "Finished jobs removed after their retention; estimated for whole partitions.",
            counts.removedJobs)
        page.add(
            .counter, "ferry_jobs_acknowledged_total", "Acknowledged results.", counts.acknowledgedJobs)
        page.add(
            .counter, "ferry_acknowledgement_reminders_total",
            "Reminders of results that are not acknowledged, the last ones included.", counts.reminders)
        page.add(
            .counter, "ferry_abandoned_uploads_removed_total",
            "Multipart uploads of ended jobs that their stores have removed.", counts.removedUploads)
        page.add(
            .counter, "ferry_abandoned_uploads_given_up_total",
            "Multipart uploads of ended jobs that stay at their stores, because each try has failed.",
            counts.givenUpUploads)
        page.add(
            .counter, "ferry_database_reconnects_total", "Database connections opened again after a loss.",
            counts.reconnects)
        page.add(
            .counter, "ferry_results_fenced_total", "Results rejected because their lease was lost.",
            counts.fencedResults)
        page.add(
            .counter, "ferry_jobs_reclaimed_total",
            "Jobs taken from dead nodes, and jobs of this node that its process does not know.",
            counts.reclaimedJobs)
        page.add(
            .gauge, "ferry_has_queued_jobs", "0 if this node knows that no job is queued, otherwise 1.",
            parts.store.hasBacklog ? 1 : 0)
        appendQueue(counts, to: &page)
        appendHosts(counts, to: &page)
    }

    /// Nothing if contents are files of the nodes.
    private func appendContentStore(to page: inout PrometheusText) {
        guard let objects = parts.places.objects else { return }
        page.add(
            .gauge, "ferry_content_store_available",
            "1 if the content store has answered the last request of this node.",
            objects.isAvailable ? 1 : 0)
        page.add(
            .gauge, "ferry_content_store_restored",
            "1 if the database was restored: no object is removed until an operator accepts that.",
            objects.counts.isRestored ? 1 : 0)
        page.add(
            .counter, "ferry_content_store_removed_total",
            "Objects and incomplete multipart uploads removed because nothing needs them.",
            objects.counts.removedCount)
        page.add(
            .counter, "ferry_content_missing_total",
            "Reads of contents whose object the content store no longer has.", objects.counts.missingCount)
    }

    private func appendQueue(_ counts: StoreMetrics.Snapshot, to page: inout PrometheusText) {
        page.add(
            .counter, "ferry_events_numbered_total", "Events numbered by this node.", counts.numberedEvents)
        page.add(
            .counter, "ferry_events_rejected_total",
            "Events that the database rejected; the table rejected_events has them.", counts.rejectedEvents)
        page.add(
            .gauge, "ferry_event_relay_lag_seconds",
            "Seconds that the oldest event waited for its number in the last transaction; 0 if none.",
            counts.relayLagSeconds)
        page.add(
            .gauge, "ferry_database_oldest_transaction_seconds",
            "Age of the oldest transaction that prevents the removal of dead rows.",
            counts.oldestTransactionSeconds)
        page.add(.gauge, "ferry_database_dead_rows", "Dead rows of the table jobs.", counts.deadRowCount)
        page.add(
            .gauge, "ferry_paused", "1 if an operator has paused the service.",
            parts.store.isPaused ? 1 : 0)
        page.add(
            .gauge, "ferry_submissions_waiting",
            "Submitted jobs that wait for their transaction on this node.",
            parts.store.submissions.waitingCount)
        page.add(
            .counter, "ferry_submissions_refused_total", "Jobs refused with 429, by reason.",
            [
                ([("reason", "overloaded")], Double(counts.overloadedJobs)),
                ([("reason", "too_many_jobs")], Double(counts.surplusJobs)),
            ])
    }

    private func appendHosts(_ counts: StoreMetrics.Snapshot, to page: inout PrometheusText) {
        page.add(
            .counter, "ferry_connectivity_waits_total",
            "Attempts that ended because their host is unreachable; their jobs wait for connectivity.",
            counts.connectivityWaits)
        page.add(
            .counter, "ferry_host_probes_total",
            "Probes: connections that test whether a host can be reached.", counts.hostProbes)
        page.add(
            .counter, "ferry_host_decisions_total", "Decisions of host control by kind.",
            HostDecision.Kind.allCases.map {
                ([("kind", $0.rawValue)], Double(counts.hostDecisions[$0, default: 0]))
            })
        page.add(
            .gauge, "ferry_hosts", "Hosts that host control keeps state of, by whether they can be reached.",
            [
                ([("reachable", "true")], Double(counts.hostsKnown - counts.hostsUnreachable)),
                ([("reachable", "false")], Double(counts.hostsUnreachable)),
            ])
    }

    private func appendSchedules(to page: inout PrometheusText) {
        let counts = parts.store.metrics
        page.add(
            .counter, "ferry_scheduled_jobs_total", "Jobs submitted by schedules on this node.",
            counts.scheduledJobs)
        page.add(
            .counter, "ferry_schedule_occurrences_dropped_total", "Occurrences without a job, by reason.",
            [
                ([("reason", "missed")], Double(counts.missedOccurrences)),
                ([("reason", "skipped")], Double(counts.skippedOccurrences)),
                ([("reason", "too_many_jobs")], Double(counts.surplusOccurrences)),
            ])
        page.add(
            .counter, "ferry_discretionary_starts_total",
            "Discretionary jobs started before their latest start.",
            counts.discretionaryStarts)
    }

    private func appendWebhooks(to page: inout PrometheusText) {
        guard let counts = parts.webhooks?.metrics else { return }
        page.add(
            .counter, "ferry_webhook_tries_total", "Tries of webhook deliveries by result.",
            [
                ([("result", "accepted")], Double(counts.deliveredCount)),
                ([("result", "failed")], Double(counts.failedTryCount)),
            ])
        page.add(
            .counter, "ferry_webhook_deliveries_failed_total",
            "Deliveries that failed for good, after their last try.", counts.givenUpCount)
        page.add(
            .gauge, "ferry_webhook_deliveries_in_flight", "Deliveries whose request is in flight.",
            counts.inFlightCount)
        page.add(
            .gauge, "ferry_webhook_deliveries_waiting",
            "Deliveries claimed by this node that wait for their try.", counts.waitingCount)
        page.add(
            .counter, "ferry_webhook_deliveries_returned_total",
            "Claimed deliveries returned to the queue without a try: their receiver fails or is slow.",
            counts.returnedCount)
        page.beginHistogram("ferry_webhook_try_duration_seconds", "Duration of webhook tries.")
        page.histogram(
            "ferry_webhook_try_duration_seconds", labels: [], bounds: WebhookMetrics.durationBounds,
            counts: counts.durationCounts.map { UInt64(max(0, $0)) }, sum: counts.durationSum)
    }

    private func appendRequests(_ metrics: APIMetrics, to page: inout PrometheusText) {
        let routes = metrics.snapshot()
        page.add(
            .counter, "ferry_http_requests_total",
            "API requests by route, method and status; 0: no response.",
            routes.flatMap { route in
                (route.byStatus.isEmpty ? [200: 0] : route.byStatus).sorted { $0.key < $1.key }.map {
                    status, count in
                    (
                        [("route", route.route), ("method", route.method), ("code", String(status))],
                        Double(count)
                    )
                }
            })
        page.beginHistogram(
            "ferry_http_request_duration_seconds", "Duration of API requests by route and method.")
        for route in routes {
            page.histogram(
                "ferry_http_request_duration_seconds",
                labels: [("route", route.route), ("method", route.method)],
                bounds: APIMetrics.bounds, counts: route.buckets, sum: route.sumSeconds)
        }
    }
}
