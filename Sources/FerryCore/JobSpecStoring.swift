extension JobSpec {
    /// The form that is kept: like `encode`, without the members that have their standard value, because rows
    /// are written twice in a job's life and most jobs say little. `init(storedJSON:)` reads both forms.
    ///
    /// A standard value that changes one day needs a version here, so that accepted jobs keep what they had.
    package func encodeStored() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 512)
        writer.beginObject()
        writer.member("kind", kind.rawValue)
        writer.member("session", session)
        if let description { writer.member("description", description) }
        if !metadata.isEmpty { writer.object("metadata", metadata) }
        storeRequest(into: &writer)
        writeEnds(into: &writer)
        storeRules(into: &writer)
        if schedule != .standard { writeSchedule(into: &writer) }
        if let bytesPerSecondMax {
            writer.name("network")
            writer.beginObject()
            writer.member("max_bytes_per_second", bytesPerSecondMax)
            writer.endObject()
        }
        if retry != .standard { writeRetry(into: &writer) }
        if !mirrors.isEmpty { writeMirrors(into: &writer) }
        if segmentCountMax != 1 { writer.member("segments", segmentCountMax) }
        if webhook != nil { writeWebhook(into: &writer) }
        if asksOnChallenge { writer.member("on_challenge", "ask") }
        if questions != .standard { questions.write(into: &writer) }
        if let acknowledgement {
            acknowledgement.write(into: &writer)
        } else if declinesAcknowledgement {
            writer.member("acknowledgement", false)
        }
        answers?.store(into: &writer)
        occurrence?.store(into: &writer)
        writer.endObject()
        return writer.bytes
    }

    private func storeRequest(into writer: inout JSONWriter) {
        writer.name("request")
        writer.beginObject()
        writer.member("url", request.url)
        writer.member("method", request.method)
        if !request.headers.isEmpty { request.writeHeaders(into: &writer) }
        if let body = request.body {
            writer.name("body")
            body.write(into: &writer)
        }
        if request.timeoutForRequest != 60 { writer.member("timeout_for_request", request.timeoutForRequest) }
        if request.acceptEncoding != .identity {
            writer.member("accept_encoding", request.acceptEncoding.rawValue)
        }
        request.connection?.store(into: &writer)
        request.original?.store(into: &writer)
        request.additionalHeaders?.store(into: &writer)
        writer.endObject()
    }

    private func writeEnds(into writer: inout JSONWriter) {
        if destination != nil { writeDestination(into: &writer) }
        if source != nil { writeSource(into: &writer) }
        if !integrity.isEmpty { writeIntegrity(into: &writer) }
    }

    private func storeRules(into writer: inout JSONWriter) {
        if redirects != .standard { writeRedirects(into: &writer) }
        if accept != Acceptance() { writeAcceptance(status: accept.status, into: &writer) }
    }
}

extension JSONWriter {
    fileprivate mutating func object(_ name: String, _ pairs: [JobSpec.Pair]) {
        self.name(name)
        beginObject()
        for pair in pairs { member(pair.name, pair.value) }
        endObject()
    }
}
