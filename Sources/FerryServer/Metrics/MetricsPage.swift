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
            .gauge, "ferry_build_info", "Versions of this process; always 1.",
            [([("version", ferryVersion), ("libcurl", library)], 1)])
        page.add(.gauge, "ferry_ready", "1 if this node is ready.", parts.health.isReady ? 1 : 0)
        appendEngine(to: &page)
        appendStore(to: &page)
        appendSchedules(to: &page)
        appendWebhooks(to: &page)
        if let requests = requests.withLock({ $0 }) { appendRequests(requests, to: &page) }
        if let waiting = waiting.withLock({ $0 }) {
            page.add(
                .gauge, "ferry_event_listeners", "Open event streams.", waiting.listenerCount())
            page.add(
                .gauge, "ferry_waiting_requests", "Requests that wait for a job (Prefer: wait).",
                waiting.waitCount())
        }
        ProcessMetrics.append(to: &page)
        return Array(page.text.utf8)
    }

    private func appendEngine(to page: inout PrometheusText) {
        page.add(.gauge, "ferry_worker_slots", "Slots for transfers on this node.", parts.slots.capacity)
        page.add(
            .gauge, "ferry_worker_slots_free", "Free slots.", parts.slots.freeCount)
        page.add(
            .gauge, "ferry_worker_slots_lent",
            "Stalled attempts whose slot another job may use.",
            parts.slots.lentCount)
        guard let counts = parts.engine?.snapshot else { return }
        appendStorage(parts.engine?.storageSpaces ?? [], to: &page)
        page.add(.gauge, "ferry_transfers_active", "Attempts that run on this node.", counts.live)
        page.add(.counter, "ferry_attempts_started_total", "Attempts started.", counts.attemptsBegun)
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
        page.add(.counter, "ferry_attempts_total", "Attempts ended, by result and error class.", results)
        page.add(
            .counter, "ferry_transferred_bytes_total", "Body bytes, by direction.",
            [
                ([("direction", "received")], Double(counts.bytesReceived)),
                ([("direction", "sent")], Double(counts.bytesSent)),
            ])
        page.add(
            .counter, "ferry_connections_total", "Transactions by kind of connection.",
            [
                ([("connection", "opened")], Double(counts.connectionsOpened)),
                ([("connection", "reused")], Double(counts.connectionsReused)),
            ])
        page.add(
            .counter, "ferry_transfer_answers_total",
            "Responses of origins by version of HTTP; 1.1 includes 1.0.",
            counts.responses.map { ([("protocol", $0.version)], Double($0.count)) })
        page.add(
            .gauge, "ferry_transfer_loop_age_seconds", "Seconds since the slowest loop's last turn.",
            counts.loopAgeSeconds)
        page.add(
            .gauge, "ferry_file_work_age_seconds",
            "Longest time in seconds that a file thread has spent on its current task.",
            counts.fileWorkSeconds)
    }

    private func appendStorage(_ reports: [StorageSpaceReport], to page: inout PrometheusText) {
        let values = { (value: (StorageSpaceReport) -> Int64) in
            reports.map { ([("path", $0.path)], Double(value($0))) }
        }
        page.add(.gauge, "ferry_storage_free_bytes", "Free space for downloads.", values(\.free))
        page.add(
            .gauge, "ferry_storage_promised_bytes", "Free bytes that running transfers will write.",
            values(\.promised))
        page.add(.gauge, "ferry_storage_reserve_bytes", "Space that downloads leave free.", values(\.reserve))
        page.add(
            .gauge, "ferry_downloads_held",
            "1 if no downloads start here: too little space, or a disk that is not writable.",
            parts.health.holdsDownloads ? 1 : 0)
    }

    private func appendStore(to page: inout PrometheusText) {
        let counts = parts.store.metrics
        page.add(
            .gauge, "ferry_database_up", "1 if the database has confirmed this node's lease recently.",
            parts.store.isReady ? 1 : 0)
        page.add(
            .gauge, "ferry_database_round_trip_seconds", "Duration of the last heartbeat's round trip.",
            parts.store.roundTripSeconds ?? 0)
        page.add(
            .counter, "ferry_log_lines_lost_total", "Log lines dropped because they were not read in time.",
            Int64(LogSink.standardError.lostCount))
        page.add(
            .gauge, "ferry_node_cut_off", "1 if this node cannot reach hosts that others reach.",
            parts.store.isCutOff ? 1 : 0)
        page.add(.counter, "ferry_jobs_submitted_total", "Jobs accepted by this node.", counts.submittedJobs)
        page.add(
            .counter, "ferry_jobs_leased_at_once_total", "Of these, jobs leased without queueing.",
            counts.leasedAtOnceJobs)
        page.add(.counter, "ferry_submit_batches_total", "Commits of submissions.", counts.submitBatches)
        page.add(
            .counter, "ferry_submit_seconds_total", "Seconds in commits of submissions.", counts.submitSeconds
        )
        page.add(.counter, "ferry_results_recorded_total", "Results committed.", counts.recordedResults)
        page.add(.counter, "ferry_jobs_claimed_total", "Jobs leased from the queue.", counts.claimedJobs)
        page.add(
            .counter, "ferry_dispatch_batches_total", "Commits of results and claims.", counts.dispatchBatches
        )
        page.add(
            .counter, "ferry_dispatch_seconds_total", "Seconds in commits of results and claims.",
            counts.dispatchSeconds)
        page.add(
            .counter, "ferry_finished_jobs_removed_total",
            "Finished jobs removed after their retention; estimated for whole partitions.",
            counts.removedJobs)
        page.add(
            .counter, "ferry_jobs_acknowledged_total", "Results that clients have acknowledged.",
            counts.acknowledgedJobs)
        page.add(
            .counter, "ferry_acknowledgement_reminders_total",
            "Reminders of results that were not acknowledged, the last ones included.", counts.reminders)
        page.add(.counter, "ferry_database_reconnects_total", "Reopened connections.", counts.reconnects)
        page.add(
            .counter, "ferry_results_fenced_total", "Results rejected after the lease was lost.",
            counts.fencedResults)
        page.add(.counter, "ferry_jobs_rescued_total", "Jobs taken from failed nodes.", counts.rescuedJobs)
        page.add(.gauge, "ferry_backlog", "1 if jobs wait in the queue.", parts.store.hasBacklog ? 1 : 0)
        appendQueue(counts, to: &page)
        appendHosts(counts, to: &page)
    }

    private func appendQueue(_ counts: StoreMetrics.Snapshot, to page: inout PrometheusText) {
        page.add(
            .counter, "ferry_events_numbered_total", "Events that this node's relay has numbered.",
            counts.numberedEvents)
        page.add(
            .counter, "ferry_events_rejected_total",
            "Event rows that the database rejected and the relay skipped.", counts.rejectedEvents)
        page.add(
            .gauge, "ferry_event_relay_lag_seconds",
            "Age of the oldest event in the relay's last transaction; 0 if none.", counts.relayLagSeconds)
        page.add(
            .gauge, "ferry_database_oldest_transaction_seconds",
            "Age of the oldest transaction that keeps dead rows.", counts.oldestTransactionSeconds)
        page.add(.gauge, "ferry_database_dead_rows", "Dead rows of unfinished jobs.", counts.deadRowCount)
        page.add(
            .gauge, "ferry_paused", "1 if an operator has paused the service.",
            parts.store.isPaused ? 1 : 0)
        page.add(
            .gauge, "ferry_submissions_waiting", "Submitted jobs that wait on this node for their commit.",
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
            "Attempts that ended because no node could reach the host; their jobs wait for connectivity.",
            counts.connectivityWaits)
        page.add(
            .counter, "ferry_host_probes_total", "Connections made to check if a host can be reached again.",
            counts.hostProbes)
        page.add(
            .counter, "ferry_host_decisions_total", "Decisions about hosts, by kind.",
            HostDecision.Kind.allCases.map {
                ([("kind", $0.rawValue)], Double(counts.hostDecisions[$0, default: 0]))
            })
        page.add(
            .gauge, "ferry_hosts", "Hosts with state, by whether they can be reached.",
            [
                ([("reachable", "true")], Double(counts.hostsKnown - counts.hostsUnreachable)),
                ([("reachable", "false")], Double(counts.hostsUnreachable)),
            ])
    }

    private func appendSchedules(to page: inout PrometheusText) {
        let counts = parts.store.metrics
        page.add(
            .counter, "ferry_scheduled_jobs_total", "Jobs that schedules have submitted on this node.",
            counts.scheduledJobs)
        page.add(
            .counter, "ferry_schedule_occurrences_dropped_total",
            "Occurrences without a job: no node was running, an earlier job had not ended, or too many jobs.",
            [
                ([("reason", "missed")], Double(counts.missedOccurrences)),
                ([("reason", "skipped")], Double(counts.skippedOccurrences)),
                ([("reason", "too_many_jobs")], Double(counts.surplusOccurrences)),
            ])
        page.add(
            .counter, "ferry_discretionary_starts_total", "Discretionary jobs that were started early.",
            counts.discretionaryStarts)
    }

    private func appendWebhooks(to page: inout PrometheusText) {
        guard let counts = parts.webhooks?.metrics else { return }
        page.add(
            .counter, "ferry_webhook_tries_total", "Attempts of webhook deliveries, by result.",
            [
                ([("result", "accepted")], Double(counts.deliveredCount)),
                ([("result", "failed")], Double(counts.failedTryCount)),
            ])
        page.add(.counter, "ferry_webhook_given_up_total", "Deliveries given up.", counts.givenUpCount)
        page.add(.gauge, "ferry_webhooks_in_flight", "Webhook requests in flight.", counts.inFlightCount)
        page.add(
            .gauge, "ferry_webhooks_waiting", "Claimed webhook deliveries that wait.", counts.waitingCount
        )
        page.add(
            .counter, "ferry_webhook_returned_total",
            "Claimed webhook deliveries returned without an attempt: their receiver fails or is slow.",
            counts.returnedCount)
        page.beginHistogram("ferry_webhook_duration_seconds", "Duration of webhook delivery attempts.")
        page.histogram(
            "ferry_webhook_duration_seconds", labels: [], bounds: WebhookMetrics.durationBounds,
            counts: counts.durationCounts.map { UInt64(max(0, $0)) }, sum: counts.durationSum)
    }

    private func appendRequests(_ metrics: APIMetrics, to page: inout PrometheusText) {
        let routes = metrics.snapshot()
        page.add(
            .counter, "ferry_http_requests_total", "Requests by route, method and status; 0: no response.",
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
            "ferry_http_request_duration_seconds", "Duration of requests by route and method.")
        for route in routes {
            page.histogram(
                "ferry_http_request_duration_seconds",
                labels: [("route", route.route), ("method", route.method)],
                bounds: APIMetrics.bounds, counts: route.buckets, sum: route.sumSeconds)
        }
    }
}
