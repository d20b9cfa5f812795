/// `acknowledgement`: a finished job and what the service keeps of it stay until somebody has said that the
/// result has arrived, as a BITS job stays in `TRANSFERRED` until `Complete`.
package struct AcknowledgementRules: Sendable, Equatable {
    package enum Source: String, Sendable, CaseIterable {
        /// `POST /v1/jobs/{id}/acknowledge` alone.
        case client
        /// Also a receiver that accepts the event of the job's end, or a reminder.
        case webhook
    }

    /// When `job.unacknowledged` is said.
    package struct Reminders: Sendable, Equatable {
        /// 0: never.
        package var countMax = 20
        /// Seconds after the job's end.
        package var delayInitial = 600.0
        /// By which the pause grows after each.
        package var multiplier = 2.0
        /// Seconds between two.
        package var delayMax = 86_400.0
        package init() {}
    }

    package var by = Source.client
    /// Seconds after the job's end; then it is waited for no more.
    package var timeout = 1_209_600.0
    package var reminders = Reminders()
    /// Which asks for it, and hears the reminders; nil: the job or its session does. Of finished jobs only.
    package var endpoint: WebhookID?
    package init() {}

    /// What the job's own webhook gets besides `EventType.standard` when it names no events.
    package static let events: [EventType] = [.jobUnacknowledged, .jobAcknowledgementExpired]
}

extension JobSpec {
    /// Nil: the job goes when its retention is over.
    package var acknowledgement: AcknowledgementRules? {
        get { boxedAcknowledgement?.value }
        set { boxedAcknowledgement = newValue.map(Boxed.init) }
    }
}

// MARK: Decoding

extension JobDecoding {
    /// `standard`: the session's; null is none.
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
            object.complain("max_delay", "invalid_combination", "This must not be below initial_delay.")
        }
        reminders.delayMax = delayMax ?? max(reminders.delayMax, reminders.delayInitial)
        object.finish()
        return reminders
    }
}

// MARK: Encoding

extension AcknowledgementRules {
    /// The member `acknowledgement`.
    func write(into writer: inout JSONWriter) {
        writer.name("acknowledgement")
        writeObject(into: &writer)
    }

    /// As the rows keep it of jobs that wait for their acknowledgement, and of endpoints that ask for one.
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

    /// Reads what `encode` wrote.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) {
        guard let rules = Self(try StoredObject(storedJSON)) else { throw StoredJSONError("acknowledgement") }
        self = rules
    }

    /// Reads what `write` wrote; nil: there was none.
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
