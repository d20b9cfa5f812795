internal import FerryCore

/// Events of jobs and sessions, as JSON Schema 2020-12.
let eventSchemas = #"""
    "EventType": {
      "enum": [
        "job.created", "job.started", "job.waiting_for_connectivity", "job.will_begin", "job.challenge",
        "job.redirect", "job.resumed_at_offset", "job.attempt_failed", "job.succeeded", "job.failed",
        "job.cancelled", "job.unacknowledged", "job.acknowledged", "job.acknowledgement_expired",
        "session.events_finished", "session.invalidated"
      ],
      "description": "Type of an event that a webhook of a job can get."
    },
    "Event": {
      "type": "object", "description": "An event, as a webhook gets it.",
      "required": ["type", "timestamp", "data"],
      "properties": {
        "type": {"$ref": "#/components/schemas/AnyEventType"},
        "timestamp": {"type": "string", "format": "date-time", "description": "Time of the event."},
        "data": {"$ref": "#/components/schemas/EventData"}
      }
    },
    "EventData": {
      "type": "object", "description": "What an event is about.", "required": ["sequence", "session", "job"],
      "properties": {
        "sequence": {
          "type": "integer",
          "description": "Number of the event in its tenant and session, without gaps."
        },
        "offset": {
          "type": ["integer", "null"],
          "description": "Only of job.resumed_at_offset: the first byte that is fetched; 0 if the download \#
    restarted."
        },
        "session": {"type": "string", "description": "Name of the session."},
        "webhook": {
          "$ref": "#/components/schemas/EventWebhook",
          "description": "Only of webhook.disabled: the endpoint."
        },
        "job": {
          "description": "The job at the time of the event. Only its id if the job was deleted; null for an \#
    event of a session or an endpoint.",
          "anyOf": [
            {"$ref": "#/components/schemas/Job"},
            {"$ref": "#/components/schemas/DeletedJob"},
            {"type": "null"}
          ]
        }
      }
    },
    "EventWebhook": {
      "type": "object", "description": "A disabled endpoint.", "required": ["id", "disabled_reason"],
      "properties": {
        "id": {"type": "string", "description": "Identifier of the endpoint."},
        "disabled_reason": {"$ref": "#/components/schemas/DisabledReason"}
      }
    },
    "DeletedJob": {
      "type": "object", "description": "A job that was deleted.", "required": ["id"],
      "properties": {"id": {"$ref": "#/components/schemas/JobID"}}
    },
    "AnyEventType": {"enum": \#(names(EventType.self)), "description": "Type of an event."},
    "LoggedEvent": {
      "type": "object", "description": "An event of the log.",
      "required": ["id", "type", "timestamp", "data"],
      "properties": {
        "id": {
          "type": "string", "examples": ["evt_01jd6m5k3w8r9x2t7v4b1c0zqh"],
          "description": "Identifier of the event."
        },
        "type": {"$ref": "#/components/schemas/AnyEventType"},
        "timestamp": {"type": "string", "format": "date-time", "description": "Time of the event."},
        "data": {"$ref": "#/components/schemas/EventData"}
      }
    },
    "EventList": {
      "type": "object", "description": "A page of events.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/LoggedEvent"},
          "description": "The events of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    }
    """#
