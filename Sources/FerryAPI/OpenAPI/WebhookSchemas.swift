internal import FerryCore

/// Webhook endpoints and deliveries, as JSON Schema 2020-12.
let webhookSchemas = #"""
    "Delivery": {
      "type": "object",
      "required": [
        "id", "event", "type", "job", "webhook", "session", "sequence", "url", "state", "occurred_at",
        "next_try_at", "tries"
      ],
      "properties": {
        "id": {"type": "string"}, "event": {"type": "string"}, "type": {"type": "string"},
        "job": {"type": ["string", "null"]}, "webhook": {"type": ["string", "null"]},
        "session": {"type": ["string", "null"]}, "sequence": {"type": "integer"},
        "url": {"$ref": "#/components/schemas/ShownURL"},
        "state": {"enum": ["pending", "accepted", "given_up"]},
        "occurred_at": {"type": "string", "format": "date-time"},
        "next_try_at": {"type": ["string", "null"], "format": "date-time"},
        "tries": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["number", "started_at", "duration", "status", "error", "answer"],
            "properties": {
              "number": {"type": "integer"},
              "started_at": {"type": "string", "format": "date-time"},
              "duration": {"type": "number"}, "status": {"type": ["integer", "null"]},
              "error": {"type": ["string", "null"]}, "answer": {"type": "string"}
            }
          }
        }
      }
    },
    "DeliveryList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Delivery"}},
        "next_cursor": {"type": ["string", "null"]}
      }
    },
    "DisabledReason": {
      "type": "object", "required": ["code", "detail"], "description": "Why an endpoint is disabled.",
      "properties": {
        "code": {"enum": ["requested", "gone", "failing"], "description": "Stable code of the reason."},
        "detail": {"type": "string", "description": "The reason as a sentence."}
      }
    },
    "WebhookList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Webhook"}},
        "next_cursor": {"type": ["string", "null"]}
      }
    },
    "RotateSecretRequest": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "overlap_seconds": {
          "type": "number", "minimum": 0, "maximum": 604800, "default": 86400,
          "description": "For so long at most the secrets before sign as well; 0: the new one alone."
        }
      }
    },
    "ReplayRequest": {
      "type": "object", "required": ["since"], "additionalProperties": false,
      "properties": {
        "since": {"type": "string", "format": "date-time", "description": "Of the event."},
        "until": {"type": ["string", "null"], "format": "date-time", "description": "After since."},
        "only": {"enum": ["failed", null], "description": "failed: what was given up."}
      }
    },
    "ReplayAnswer": {
      "type": "object", "required": ["redelivered"],
      "properties": {"redelivered": {"type": "integer", "minimum": 0}}
    }
    """#
