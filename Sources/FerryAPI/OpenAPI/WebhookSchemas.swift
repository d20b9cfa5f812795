internal import FerryCore

/// Webhook endpoints and deliveries, as JSON Schema 2020-12.
let webhookSchemas = #"""
    "Delivery": {
      "type": "object", "description": "An event on its way to one receiver.",
      "required": [
        "id", "event", "type", "job", "webhook", "session", "sequence", "url", "state", "occurred_at",
        "next_try_at", "tries"
      ],
      "properties": {
        "id": {"type": "string", "description": "Identifier of the delivery."},
        "event": {"type": "string", "description": "Identifier of the event, sent as webhook-id."},
        "type": {"type": "string", "description": "Type of the event, or webhook.ping."},
        "job": {
          "type": ["string", "null"],
          "description": "Job of the event, or null if the event is of a session or an endpoint."
        },
        "webhook": {
          "type": ["string", "null"],
          "description": "The endpoint, or null for a job's own webhook."
        },
        "session": {
          "type": ["string", "null"],
          "description": "Session of the event, or null if it has none."
        },
        "sequence": {"type": "integer", "description": "Number of the event in its session."},
        "url": {"$ref": "#/components/schemas/ShownURL", "description": "URL of the receiver."},
        "state": {"enum": ["pending", "accepted", "given_up"], "description": "State of the delivery."},
        "occurred_at": {"type": "string", "format": "date-time", "description": "Time of the event."},
        "next_try_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time of the next try, or null if the delivery is not pending."
        },
        "tries": {
          "type": "array", "items": {"$ref": "#/components/schemas/DeliveryTry"},
          "description": "The tries, oldest first."
        }
      }
    },
    "DeliveryTry": {
      "type": "object", "description": "One request of a delivery.",
      "required": ["number", "started_at", "duration", "status", "error", "answer"],
      "properties": {
        "number": {"type": "integer", "description": "Number of the try, from 1."},
        "started_at": {"type": "string", "format": "date-time", "description": "Time of the start."},
        "duration": {"type": "number", "description": "Duration of the try in seconds."},
        "status": {
          "type": ["integer", "null"],
          "description": "HTTP status code of the response, or null if there was none."
        },
        "error": {
          "type": ["string", "null"],
          "description": "Stable code of the failure, or null if the receiver accepted the delivery."
        },
        "answer": {
          "type": "string",
          "description": "First 1,024 bytes of the response body as text. Empty if the body may be the \#
    answer to a question."
        }
      }
    },
    "DeliveryList": {
      "type": "object", "description": "A page of deliveries.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Delivery"},
          "description": "The deliveries of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "DisabledReason": {
      "type": "object", "required": ["code", "detail"], "description": "Why an endpoint is disabled.",
      "properties": {
        "code": {
          "enum": ["requested", "gone", "failing"],
          "description": "Stable code of the reason. requested: a client disabled the endpoint. gone: the \#
    receiver responded 410. failing: no delivery was accepted for too long."
        },
        "detail": {"type": "string", "description": "The reason as a sentence."}
      }
    },
    "WebhookList": {
      "type": "object", "description": "A page of endpoints.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Webhook"},
          "description": "The endpoints of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "RotateSecretRequest": {
      "type": "object", "description": "How to rotate the keys of an endpoint.",
      "additionalProperties": false,
      "properties": {
        "overlap_seconds": {
          "type": "number", "minimum": 0, "maximum": 604800, "default": 86400,
          "description": "Seconds for which the old keys also sign, at most; 0: only the new keys sign."
        }
      }
    },
    "ReplayRequest": {
      "type": "object", "description": "Which deliveries to send again.", "required": ["since"],
      "additionalProperties": false,
      "properties": {
        "since": {
          "type": "string", "format": "date-time", "description": "Only events at or after this time."
        },
        "until": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Only events before this time; after since. Null means no end."
        },
        "only": {
          "enum": ["failed", null],
          "description": "failed: only deliveries that were given up. null means all."
        }
      }
    },
    "ReplayAnswer": {
      "type": "object", "description": "Result of a replay.", "required": ["redelivered"],
      "properties": {
        "redelivered": {
          "type": "integer", "minimum": 0, "description": "Number of deliveries that are sent again."
        }
      }
    }
    """#
