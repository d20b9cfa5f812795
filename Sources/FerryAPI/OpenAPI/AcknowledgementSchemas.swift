/// Acknowledgement of finished jobs, as JSON Schema 2020-12.
let acknowledgementSchemas = #"""
    "AcknowledgementRules": \#(acknowledgementRules(isPatch: false)),
    "AcknowledgementPatch": \#(acknowledgementRules(isPatch: true)),
    "JobAcknowledgement": \#(acknowledgementRules(isPatch: false, others: shownEndpoint))
    """#

private let shownEndpoint = #"""
    ,
            "endpoint": {
              "type": "string", "pattern": "^whk_",
              "description": "Of /v1/webhooks, which asks for it; not there when the job or its session does."
            }
    """#

/// In a merge patch, null sets the default.
private func acknowledgementRules(isPatch: Bool, others: String = "") -> String {
    func type(_ name: String) -> String { isPatch ? "[\"\(name)\", \"null\"]" : "\"\(name)\"" }
    return #"""
        {
              "type": "object", "additionalProperties": false,
              "description": "The terminal job and what the service keeps of it stay until somebody \#
        acknowledges it, whatever the retention; the retention runs from then.",
              "properties": {
                "by": {
                  "enum": ["client", "webhook"\#(isPatch ? ", null" : "")], "default": "client",
                  "description": "webhook: a receiver that accepts the event of the job's end, or a \#
        reminder, acknowledges it as well; when an endpoint asks for it, only its own."
                },
                "timeout": {
                  "type": \#(type("number")), "minimum": 1, "maximum": 7776000, "default": 1209600,
                  "description": "Seconds after the job's end; then nobody waits any more."
                },
                "reminders": {
                  "type": \#(type("object")), "additionalProperties": false,
                  "description": "When job.unacknowledged comes. Seconds; max_delay is not below \#
        initial_delay.",
                  "properties": {
                    "max_count": {
                      "type": \#(type("integer")), "minimum": 0, "maximum": 100, "default": 20
                    },
                    "initial_delay": {
                      "type": \#(type("number")), "minimum": 1, "maximum": 604800, "default": 600
                    },
                    "multiplier": {"type": \#(type("number")), "minimum": 1, "maximum": 10, "default": 2},
                    "max_delay": {
                      "type": \#(type("number")), "minimum": 1, "maximum": 604800, "default": 86400
                    }
                  }
                }\#(others)
              }
            }
        """#
}
