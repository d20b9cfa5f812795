/// Rules of `acknowledgement`: a finished job and the data that Ferry stores for it stay until a client
/// acknowledges the result, as a BITS job stays in `TRANSFERRED` until `Complete`.
package struct AcknowledgementRules: Sendable, Equatable {
    /// Who may acknowledge a job.
    package enum Source: String, Sendable, CaseIterable {
        /// Only clients, by `POST /v1/jobs/{id}/acknowledge`.
        case client
        /// Also a receiver, by accepting the event of the job's end or a reminder.
        case webhook
    }

    /// Times of the event `job.unacknowledged`.
    package struct Reminders: Sendable, Equatable {
        /// Number of reminders; 0 for none.
        package var countMax = 20
        /// Seconds from the job's end to the first reminder.
        package var delayInitial = 600.0
        /// Factor by which the delay grows with each reminder.
        package var multiplier = 2.0
        /// Longest delay between two reminders, in seconds.
        package var delayMax = 86_400.0
        /// Creates the default reminders.
        package init() {}
    }

    /// Who may acknowledge the job.
    package var by = Source.client
    /// Seconds after the job's end at which the wait for an acknowledgement ends.
    package var timeout = 1_209_600.0
    /// Times of the reminders.
    package var reminders = Reminders()
    /// The endpoint that requires the acknowledgement and gets the reminders, or `nil` if the job or its
    /// session requires it. Set for finished jobs only.
    package var endpoint: WebhookID?
    /// Creates the default rules.
    package init() {}

    /// Events that the job's own webhook gets besides `EventType.standard` if it names none.
    package static let events: [EventType] = [.jobUnacknowledged, .jobAcknowledgementExpired]
}

extension JobSpec {
    /// Rules of acknowledgement, or `nil` if the job is deleted after its retention.
    package var acknowledgement: AcknowledgementRules? {
        get { boxedAcknowledgement?.value }
        set { boxedAcknowledgement = newValue.map(Boxed.init) }
    }
}

// MARK: Decoding

extension JobDecoding {
    /// Reads the member; `standard` is the session's value, and null means none.
    func acknowledgement(
        _ fields: inout FieldReader, standard: AcknowledgementRules? = nil
    ) -> AcknowledgementRules? {
        guard fields.value("acknowledgement") != nil else { return standard }
        guard var object = fields.object("acknowledgement", isNullable: true) else { return nil }
        var rules = AcknowledgementRules()
        rules.by = object.choice("by", AcknowledgementRules.Source.self) ?? rules.by
        rules.timeout =
            object.number("timeout", in: 1...Limits.acknowledgementSecondsMax) ?? rules.timeout
        rules.reminders = reminders(&object)
        object.finish()
        return rules
    }

    private func reminders(_ fields: inout FieldReader) -> AcknowledgementRules.Reminders {
        var reminders = AcknowledgementRules.Reminders()
        guard var object = fields.object("reminders") else { return reminders }
        reminders.countMax =
            object.integer("max_count", in: 0...Limits.reminderCountMax).map(Int.init) ?? reminders.countMax
        reminders.delayInitial =
            object.number("initial_delay", in: 1...Limits.reminderDelayMax) ?? reminders.delayInitial
        reminders.multiplier = object.number("multiplier", in: 1...10) ?? reminders.multiplier
        let delayMax = object.number("max_delay", in: 1...Limits.reminderDelayMax)
        if let delayMax, delayMax < reminders.delayInitial {
            object.addError("max_delay", "invalid_combination", "This must not be below initial_delay.")
        }
        reminders.delayMax = delayMax ?? max(reminders.delayMax, reminders.delayInitial)
        object.finish()
        return reminders
    }
}

// MARK: Encoding

extension AcknowledgementRules {
    /// Writes the member `acknowledgement`.
    func write(into writer: inout JSONWriter) {
        writer.name("acknowledgement")
        writeObject(into: &writer)
    }

    /// Returns the JSON that is stored for jobs that wait for an acknowledgement and for endpoints that
    /// require one.
    package func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 160)
        writeObject(into: &writer)
        return writer.bytes
    }

    private func writeObject(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("by", by.rawValue)
        writer.member("timeout", timeout)
        writer.name("reminders")
        writer.beginObject()
        writer.member("max_count", reminders.countMax)
        writer.member("initial_delay", reminders.delayInitial)
        writer.member("multiplier", reminders.multiplier)
        writer.member("max_delay", reminders.delayMax)
        writer.endObject()
        if let endpoint { writer.member("endpoint", endpoint) }
        writer.endObject()
    }

    /// Reads what `encode` returned.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) {
        guard let rules = Self(try StoredObject(storedJSON)) else { throw StoredJSONError("acknowledgement") }
        self = rules
    }

    /// Reads what `write` wrote; `nil` if there was no such member.
    init?(_ stored: StoredObject?) {
        guard let stored else { return nil }
        by = stored.string("by").flatMap(Source.init) ?? by
        timeout = stored.double("timeout") ?? timeout
        endpoint = stored.string("endpoint").flatMap(WebhookID.init)
        guard let object = stored.object("reminders") else { return }
        reminders.countMax = object.integer("max_count").map { Int(clamping: $0) } ?? reminders.countMax
        reminders.delayInitial = object.double("initial_delay") ?? reminders.delayInitial
        reminders.multiplier = object.double("multiplier") ?? reminders.multiplier
        reminders.delayMax = object.double("max_delay") ?? reminders.delayMax
    }
}
