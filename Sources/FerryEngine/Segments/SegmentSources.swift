import FerryCore

/// The URLs of one download while an attempt runs, best first, and which may be asked for which bytes. A pure
/// value.
struct SegmentSources: Sendable {
    struct Source: Sendable {
        private(set) var url: WebURL
        private(set) var isOwnOrigin: Bool
        /// Whether its origin failed lately: used only if no other source is left.
        let isBad: Bool
        /// Position in the job: the request's own URL is 0.
        let place: Int
        /// Target of the redirects; further parts are requested there directly.
        var landing: Hop?
        var validator: Validator?
        /// Source of the validator (`PartialRecord.source`); `nil` if that may have been another
        /// source.
        var validatorPlace: String?
        /// Whether it serves ranges of the file that is being fetched; `nil` if that is unknown.
        var givesRanges: Bool?
        /// Whether its response to a range was useless: from then on only the whole file is requested.
        var isAskedPlainly = false
        /// Whether it answers `If-Range` with the whole of the same file.
        var ignoresIfRange = false
        /// Notes that the source has another file than the one that is being fetched.
        var hasChanged = false
        /// Number of times at which its file differed from the one before.
        var changeCount = 0
        /// Connections that it has accepted at once.
        var partCountMax = Limits.segmentCountMax
        /// Bytes per second of one connection, as last measured in this attempt.
        var speed: Double?
        /// Failures since the last useful response.
        var failureCount = 0
        /// Whether a request was given up before its timeout: used only if no other source is left.
        var hasStopped = false
        /// Whether it is not used any more in this attempt.
        var isOut = false
        var error: TransferError?
        var retryAfter: Double?
        /// The question about a refused URL.
        var question: JobQuestion?
        /// Target of a redirect whose delay is too long for this attempt.
        var delayedRedirect: Hop?
        /// When the host that it led to may be used again, in nanoseconds of the loop's clock.
        var heldUntil: Int64 = 0

        init(_ url: WebURL, place: Int, isOwnOrigin: Bool, isBad: Bool) {
            self.url = url
            self.place = place
            self.isOwnOrigin = isOwnOrigin
            self.isBad = isBad
        }

        /// Number of changes of the job's request by clients. Responses to earlier ones do not count.
        private(set) var renewalCount = 0

        /// Notes that the job's request has changed. What is known of its file stays, but another URL has to
        /// prove that it has the same one.
        mutating func renew(_ own: WebURL) {
            renewalCount += 1
            landing = nil
            (error, retryAfter, question, delayedRedirect) = (nil, nil, nil, nil)
            (isOut, hasStopped, failureCount, heldUntil) = (false, false, 0, 0)
            if place == 0, url != own {
                url = own
                validatorPlace = nil
                givesRanges = nil
                (isAskedPlainly, ignoresIfRange, hasChanged) = (false, false, false)
            }
            isOwnOrigin = url.isSameOrigin(as: own)
        }

        /// The hop of the next request.
        var hop: Hop { landing ?? ownHop }

        /// The hop of a request for the source's own URL.
        fileprivate var ownHop: Hop {
            Hop(url: url, method: "GET", sendsBody: false, keepsCredentials: isOwnOrigin)
        }
    }

    private(set) var sources: [Source]
    /// Failures without a success between them after which a source is not used any more.
    private let failureCountMax: Int
    /// Whether the parts of one file may come from several sources.
    var mayMix = true

    /// The request's own URL and its mirrors, in the order of their quality.
    /// `landing`: where a redirect of an earlier attempt leads, and the place of the redirected source; `nil`
    /// if there was none.
    init(
        _ own: WebURL, landing: (hop: Hop, place: Int)? = nil, mirrors: [WebURL],
        _ statistics: MirrorStatistics, now: Int64,
        failureCountMax: Int
    ) {
        self.failureCountMax = failureCountMax
        let urls = [own] + mirrors
        sources = statistics.order(urls.map(\.origin), now: now).map { place, standing in
            var source = Source(
                urls[place], place: place, isOwnOrigin: urls[place].isSameOrigin(as: own),
                isBad: standing == .bad)
            if let landing, landing.place == place { source.landing = landing.hop }
            return source
        }
    }

    subscript(index: Int) -> Source {
        get { sources[index] }
        set { sources[index] = newValue }
    }

    /// Sets the validator of the file that an earlier attempt began with a response from `source`
    /// (`PartialRecord.source`). It belongs to the only source, or to the one that has this URL. If a
    /// redirect of one of several sources led there, the source is unknown, and each has to prove that it has
    /// the same file.
    ///
    /// `isRenewed`: whether the job's link was changed.
    mutating func expect(_ validator: Validator, of source: String, isRenewed: Bool) {
        let fit = sources.indices.filter {
            sources.count == 1 || PartialRecord.source(of: sources[$0].url) == source
        }
        guard fit.count == 1 else { return }
        sources[fit[0]].validator = validator
        sources[fit[0]].validatorPlace = isRenewed ? nil : source
    }

    /// Returns the hop of a source's own URL. The target of redirects that `expired` has reached is
    /// forgotten, unless another part has found a new one.
    mutating func ownHop(of index: Int, leaving expired: Hop) -> Hop {
        if sources[index].landing?.url == expired.url { sources[index].landing = nil }
        return sources[index].ownHop
    }

    /// Sets the validator that a response from that URL had.
    mutating func learn(_ validator: Validator, of index: Int, at url: WebURL) {
        sources[index].validator = validator
        sources[index].validatorPlace = PartialRecord.source(of: url)
    }

    var count: Int { sources.count }
    var hasAny: Bool { sources.contains { !$0.isOut } }

    /// Returns the source to ask for a file of which nothing is known yet.
    func lead(except closed: Set<Int>) -> Int? {
        let open = moving(sources.indices.filter { !sources[$0].isOut && !closed.contains($0) })
        return open.first { !sources[$0].isBad } ?? open.first
    }

    /// Returns the source to ask for one more range: the one with the fewest parts, the better one among
    /// equals.
    ///
    /// `running`: parts by source. `lead`: the source whose response came first; `nil` if none has in this
    /// attempt.
    func forRange(running: [Int: Int], lead: Int?, except closed: Set<Int> = []) -> Int? {
        func isFit(_ index: Int) -> Bool {
            let (source, count) = (sources[index], running[index] ?? 0)
            guard !source.isOut, source.givesRanges != false, count < source.partCountMax,
                !closed.contains(index)
            else {
                return false
            }
            // One request suffices to learn whether it serves ranges.
            if source.givesRanges == nil, count > 0 { return false }
            return mayMix || lead == nil || index == lead
        }
        let fit = moving(sources.indices.filter(isFit))
        // The file would be late because of a source that is much slower than the others.
        let fastest = fit.compactMap { sources[$0].speed }.max() ?? 0
        let good = fit.filter { !sources[$0].isBad && sources[$0].speed ?? .infinity >= fastest / 4 }
        return (good.isEmpty ? fit : good).min { (running[$0] ?? 0, $0) < (running[$1] ?? 0, $1) }
    }

    /// Returns the sources that have not stopped, or all if all have.
    private func moving(_ indices: [Int]) -> [Int] {
        let moving = indices.filter { !sources[$0].hasStopped }
        return moving.isEmpty ? indices : moving
    }

    /// Returns the source to ask instead of one that does not respond. `target`: the file; `nil` if nothing
    /// is known of it.
    func substitute(for index: Int, _ target: PartExchanges.Target?) -> Int? {
        let stopped = Set(sources.indices.filter { sources[$0].hasStopped || $0 == index })
        return target == nil
            ? lead(except: stopped) : forRange(running: [:], lead: target?.lead, except: stopped)
    }

    /// Notes that a request was given up for another one. That is not a failure: the source may only be slow.
    mutating func stopped(_ index: Int, _ error: TransferError) {
        sources[index].error = error
        sources[index].landing = nil
        sources[index].hasStopped = true
    }

    /// Notes that the job's request has changed. `own`: its URL.
    mutating func renew(_ own: WebURL) {
        for index in sources.indices { sources[index].renew(own) }
    }

    /// Notes a failed request. `running`: parts that still run at the same source.
    mutating func failed(
        _ index: Int, _ error: TransferError, retryAfter: Double? = nil, isRefusal: Bool, running: Int
    ) {
        sources[index].error = error
        sources[index].retryAfter = retryAfter
        // The target of a redirect may have expired; the URL itself is requested again.
        let wasElsewhere = sources[index].landing != nil
        sources[index].landing = nil
        if isRefusal, running > 0 {
            sources[index].partCountMax = running
            return
        }
        sources[index].failureCount += 1
        let mayGoOn = sources[index].givesRanges == true || sources[index].hasChanged
        let isHopeless = isRefusal && !wasElsewhere || !mayGoOn
        sources[index].isOut = isHopeless || sources[index].failureCount >= failureCountMax
    }

    /// Notes that the source refuses its URL or the credential. `running`: parts that still run there.
    mutating func expired(_ index: Int, _ question: JobQuestion, running: Int) {
        if running == 0 { sources[index].question = question }
        failed(
            index, .refused(status: question.response?.status ?? 0), isRefusal: true, running: running)
    }

    /// Notes a redirect that asks to wait longer than this attempt does. `running`: parts that still run at
    /// the same source.
    mutating func redirected(
        _ index: Int, later hop: Hop, _ error: TransferError, after delay: Double, running: Int
    ) {
        sources[index].delayedRedirect = hop
        failed(index, error, retryAfter: delay, isRefusal: true, running: running)
    }

    /// Target of the redirect that is the error of the attempt, and the place of its source; `nil` if
    /// another error is.
    var delayedRedirect: (hop: Hop, place: Int)? {
        guard !hasAny, let worst, let hop = worst.delayedRedirect else { return nil }
        return (hop, worst.place)
    }

    /// The question about the job's own URL, if that is refused and no source is left.
    var question: JobQuestion? { hasAny ? nil : sources.first { $0.place == 0 }?.question }

    /// Notes that the source has another file than the one that is being fetched.
    mutating func changed(_ index: Int) {
        if !sources[index].hasChanged { sources[index].changeCount += 1 }
        sources[index].hasChanged = true
        // Its responses to ranges may differ from those to the whole file.
        if sources[index].changeCount > 1 { sources[index].isAskedPlainly = true }
        sources[index].givesRanges = false
        sources[index].error = TransferError(
            .sourceChanged, "The server's file changed while it was fetched.", phase: .receiving,
            isRetryable: true)
    }

    /// Notes that the source serves no ranges.
    mutating func refusesRanges(_ index: Int) {
        sources[index].isAskedPlainly = true
        sources[index].givesRanges = false
        sources[index].landing = nil
    }

    /// Notes a request that broke after it had brought new bytes.
    mutating func progressed(_ index: Int, _ error: TransferError) {
        sources[index].error = error
        sources[index].landing = nil
        wasUseful(index)
    }

    /// Excludes a source whose bytes were wrong.
    mutating func exclude(_ index: Int, _ error: TransferError) {
        sources[index].isOut = true
        sources[index].error = error
    }

    mutating func measured(_ index: Int, _ bytesPerSecond: Double) { sources[index].speed = bytesPerSecond }

    mutating func wasUseful(_ index: Int) { sources[index].failureCount = 0 }

    /// The file restarts: forgets what is known about the file, not what is known about the servers.
    mutating func forget() {
        for index in sources.indices {
            sources[index].validator = nil
            sources[index].givesRanges = nil
            sources[index].hasChanged = false
            sources[index].landing = nil
        }
    }

    /// The error of the attempt: a retryable one before others, that of the request's own URL before those of
    /// its mirrors.
    var verdict: (error: TransferError, retryAfter: Double?)? {
        worst.flatMap { source in source.error.map { ($0, source.retryAfter) } }
    }

    private var worst: Source? {
        let failed = sources.filter { $0.error != nil }.sorted { $0.place < $1.place }
        return failed.first { $0.error?.isRetryable == true } ?? failed.first
    }
}
