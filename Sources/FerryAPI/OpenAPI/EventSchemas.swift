internal import FerryCore

/// Events of jobs and sessions, as JSON Schema 2020-12.
let eventSchemas = #"""
    "EventType": {
      "enum": [
        "job.created", "job.started", "job.waiting_for_connectivity", "job.will_begin", "job.challenge",
        "job.redirect", "job.resumed_at_offset", "job.attempt_failed", "job.succeeded", "job.failed",
        "job.cancelled", "job.unacknowledged", "job.acknowledged", "job.acknowledgement_expired",
        "session.events_finished", "session.invalidated"
      ]
    },
    "Event": {
      "type": "object",
      "required": ["type", "timestamp", "data"],
      "properties": {
        "type": {"$ref": "#/components/schemas/AnyEventType"},
        "timestamp": {"type": "string", "format": "date-time"},
        "data": {
          "type": "object",
          "required": ["sequence", "session", "job"],
          "properties": {
            "sequence": {"type": "integer", "description": "Without gaps per tenant and session."},
            "offset": {
              "type": ["integer", "null"],
              "description": "Of job.resumed_at_offset only: the first byte that is fetched; 0: all of them."
            },
            "session": {"type": "string"},
            "webhook": {
              "type": "object", "required": ["id", "disabled_reason"],
              "description": "Of webhook.disabled only.",
              "properties": {
                "id": {"type": "string"},
                "disabled_reason": {
                  "type": "object", "required": ["code", "detail"],
                  "properties": {"code": {"enum": ["gone", "failing"]}, "detail": {"type": "string"}}
                }
              }
            },
            "job": {
              "description": "As it was when it happened; its id alone once it is deleted; null for an \#
    event of a session or an endpoint.",
              "anyOf": [
                {"$ref": "#/components/schemas/Job"},
                {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
                {"type": "null"}
              ]
            }
          }
        }
      }
    },
    "AnyEventType": {"enum": \#(names(EventType.self))},
    "LoggedEvent": {
      "allOf": [
        {"$ref": "#/components/schemas/Event"},
        {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
      ]
    },
    "EventList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/LoggedEvent"}},
        "next_cursor": {"type": ["string", "null"]}
      }
    }
    """#
