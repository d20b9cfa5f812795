import FerryCore

/// The URLs of one download while an attempt runs, best first: who may be asked for what. A pure value.
struct SegmentSources: Sendable {
    struct Source: Sendable {
        let url: WebURL
        let isOwnOrigin: Bool
        /// Failed lately: asked when nobody else is left.
        let isBad: Bool
        /// In the job: the request's own URL is 0.
        let place: Int
        /// Where redirects have led; asked directly for further parts.
        var landing: Hop?
        var validator: Validator?
        /// Where that was named (`PartialRecord.source`); nil: nobody knows whether it was here.
        var validatorPlace: String?
        /// Whether it gives ranges of the file that is being fetched; nil: not known yet.
        var givesRanges: Bool?
        /// Its first answer was to a range and useless: asked for the whole from now on.
        var isAskedPlainly = false
        /// It has another file than the one that is being fetched.
        var hasChanged = false
        /// How often its file was another one than before.
        var changeCount = 0
        /// Connections it has let us have.
        var partCountMax = Limits.segmentCountMax
        /// Bytes a second of one connection, as last measured in this attempt.
        var speed: Double?
        /// Failures since it last was of use.
        var failureCount = 0
        /// It was given up although its time was not over: asked when nobody else is left.
        var hasStopped = false
        /// Asked no more in this attempt.
        var isOut = false
        var error: TransferError?
        var retryAfter: Double?
        /// It led to a host that may not be used before, on the loop's clock.
        var heldUntil: Int64 = 0

        init(_ url: WebURL, place: Int, isOwnOrigin: Bool, isBad: Bool) {
            self.url = url
            self.place = place
            self.isOwnOrigin = isOwnOrigin
            self.isBad = isBad
        }

        /// The next request's.
        var hop: Hop {
            landing ?? Hop(url: url, method: "GET", sendsBody: false, keepsCredentials: isOwnOrigin)
        }
    }

    private(set) var sources: [Source]
    /// Failures without success between them after which a source is asked no more.
    private let failureCountMax: Int
    /// Whether the parts of one file may come from several.
    var mayMix = true

    /// The request's own URL and its mirrors, in the order of their quality.
    init(_ own: WebURL, mirrors: [WebURL], _ board: MirrorStatistics, now: Int64, failureCountMax: Int) {
        self.failureCountMax = failureCountMax
        let urls = [own] + mirrors
        sources = board.order(urls.map(\.origin), now: now).map { place, standing in
            Source(
                urls[place], place: place, isOwnOrigin: urls[place].isSameOrigin(as: own),
                isBad: standing == .bad)
        }
    }

    subscript(index: Int) -> Source {
        get { sources[index] }
        set { sources[index] = newValue }
    }

    /// An earlier attempt began the file with an answer from there (`PartialRecord.source`): it was the only
    /// source's, or that of the one which has this URL. Whose a redirect was among several nobody knows; then
    /// each has to prove that it has the same file.
    ///
    /// `isRenewed`: the job's link is another one now.
    mutating func expect(_ validator: Validator, of source: String, isRenewed: Bool) {
        let fit = sources.indices.filter {
            sources.count == 1 || PartialRecord.source(of: sources[$0].url) == source
        }
        guard fit.count == 1 else { return }
        sources[fit[0]].validator = validator
        sources[fit[0]].validatorPlace = isRenewed ? nil : source
    }

    /// An answer from that URL has said so.
    mutating func learn(_ validator: Validator, of index: Int, at url: WebURL) {
        sources[index].validator = validator
        sources[index].validatorPlace = PartialRecord.source(of: url)
    }

    var count: Int { sources.count }
    var hasAny: Bool { sources.contains { !$0.isOut } }

    /// Whom to ask for a file of which nothing is known.
    func lead(except closed: Set<Int>) -> Int? {
        let open = moving(sources.indices.filter { !sources[$0].isOut && !closed.contains($0) })
        return open.first { !sources[$0].isBad } ?? open.first
    }

    /// Whom to ask for one more range of a file: the one with the fewest parts, the better one among equals.
    ///
    /// `running`: parts by source. `lead`: whose file it is; nil: nobody's in this attempt.
    func forRange(running: [Int: Int], lead: Int?, except closed: Set<Int> = []) -> Int? {
        func isFit(_ index: Int) -> Bool {
            let (source, count) = (sources[index], running[index] ?? 0)
            guard !source.isOut, source.givesRanges != false, count < source.partCountMax,
                !closed.contains(index)
            else {
                return false
            }
            // One request is enough to learn that it does not.
            if source.givesRanges == nil, count > 0 { return false }
            return mayMix || lead == nil || index == lead
        }
        let fit = moving(sources.indices.filter(isFit))
        // Others would have to wait for whoever is much slower.
        let fastest = fit.compactMap { sources[$0].speed }.max() ?? 0
        let good = fit.filter { !sources[$0].isBad && sources[$0].speed ?? .infinity >= fastest / 4 }
        return (good.isEmpty ? fit : good).min { (running[$0] ?? 0, $0) < (running[$1] ?? 0, $1) }
    }

    /// Those that have not stopped, or all.
    private func moving(_ indices: [Int]) -> [Int] {
        let moving = indices.filter { !sources[$0].hasStopped }
        return moving.isEmpty ? indices : moving
    }

    /// Whom to ask instead of one that says nothing. `target`: of what; nil: nothing is known of it.
    func substitute(for index: Int, _ target: SegmentedTransfer.Target?) -> Int? {
        let stopped = Set(sources.indices.filter { sources[$0].hasStopped || $0 == index })
        return target == nil
            ? lead(except: stopped) : forRange(running: [:], lead: target?.lead, except: stopped)
    }

    /// A request was given up for another one. That counts for nothing: it may only take long.
    mutating func stopped(_ index: Int, _ error: TransferError) {
        sources[index].error = error
        sources[index].landing = nil
        sources[index].hasStopped = true
    }

    /// A request failed. `running`: parts that go on at the same source.
    mutating func failed(
        _ index: Int, _ error: TransferError, retryAfter: Double? = nil, isRefusal: Bool, running: Int
    ) {
        sources[index].error = error
        sources[index].retryAfter = retryAfter
        // Where a redirect led may hold no longer than the redirect said; the URL itself is asked again.
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

    /// It has another file than the one that is being fetched.
    mutating func changed(_ index: Int) {
        if !sources[index].hasChanged { sources[index].changeCount += 1 }
        sources[index].hasChanged = true
        // It may only say so of ranges.
        if sources[index].changeCount > 1 { sources[index].isAskedPlainly = true }
        sources[index].givesRanges = false
        sources[index].error = TransferError(
            .sourceChanged, "The server's file changed while it was fetched.", phase: .receiving,
            isRetryable: true)
    }

    /// Its bytes were wrong.
    mutating func exclude(_ index: Int, _ error: TransferError) {
        sources[index].isOut = true
        sources[index].error = error
    }

    mutating func measured(_ index: Int, _ bytesPerSecond: Double) { sources[index].speed = bytesPerSecond }

    mutating func wasUseful(_ index: Int) { sources[index].failureCount = 0 }

    /// The file begins anew: what was learned about it is forgotten, not what was learned about the servers.
    mutating func forget() {
        for index in sources.indices {
            sources[index].validator = nil
            sources[index].givesRanges = nil
            sources[index].hasChanged = false
            sources[index].landing = nil
        }
    }

    /// What the attempt failed of: what may pass before what stays, the request's own URL before its mirrors.
    var verdict: (error: TransferError, retryAfter: Double?)? {
        let failed = sources.filter { $0.error != nil }.sorted { $0.place < $1.place }
        guard let worst = failed.first(where: { $0.error?.isRetryable == true }) ?? failed.first,
            let error = worst.error
        else { return nil }
        return (error, worst.retryAfter)
    }
}
