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
    "WebhookEndpointRequest": {
      "type": "object", "required": ["url"], "additionalProperties": false,
      "properties": {
        "url": {"$ref": "#/components/schemas/URL"},
        \#(webhookFields(isPatch: false))
      }
    },
    "WebhookPatch": {
      "description": "A merge patch (RFC 7396): what is named changes, null gives it its standard value.",
      "type": "object", "additionalProperties": false,
      "properties": {
        "url": {"$ref": "#/components/schemas/URL"},
        \#(webhookFields(isPatch: true))
      }
    },
    "WebhookRetry": \#(webhookRetry(isPatch: false)),
    "WebhookRetryPatch": \#(webhookRetry(isPatch: true)),
    "Webhook": {
      "type": "object",
      "required": [\#(webhookRequired)],
      "properties": {
        \#(webhookShown),
        "secret": {
          "type": "object", "required": ["set"], "properties": {"set": {"const": true}},
          "description": "Shown by the answers that make one."
        }
      }
    },
    "WebhookWithSecret": {
      "type": "object",
      "required": [\#(webhookRequired)],
      "properties": {
        \#(webhookShown),
        "secret": {
          "type": "string", "pattern": "^whsec_",
          "description": "Verifies v1 signatures; not shown again."
        }
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

private let webhookEvents = (["*"] + EventType.allCases.map(\.rawValue)).map { "\"\($0)\"" }
    .joined(separator: ", ")

/// Returns the type of a member; in a merge patch it may be null.
private func type(_ isPatch: Bool, _ name: String) -> String {
    isPatch ? "[\"\(name)\", \"null\"]" : "\"\(name)\""
}

/// Members of an endpoint other than its URL. In a merge patch, null sets the default.
private func webhookFields(isPatch: Bool) -> String {
    let names = #""propertyNames": {"minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$"},"#
    return #"""
        "events": {
              "type": \#(type(isPatch, "array")), "minItems": 1, "maxItems": 50, "uniqueItems": true,
              "items": {"enum": [\#(webhookEvents)]}, "default": ["*"]
            },
            "session": {
              "type": ["string", "null"], "pattern": "^(?!\\.{1,2}$)[A-Za-z0-9._~:@-]{1,128}$",
              "description": "Events of this session only."
            },
            "metadata": {
              "type": \#(type(isPatch, "object")), "maxProperties": 50,
              \#(isPatch ? "" : names)
              "additionalProperties": {
                "type": \#(type(isPatch, "string")), "maxLength": 2048, "pattern": "^[^\\u0000]*$"
              },
              "description": "Events of jobs that have all of these pairs."
            },
            "description": {"type": ["string", "null"], "maxLength": 1024, "pattern": "^[^\\u0000]*$"},
            "enabled": {"type": \#(type(isPatch, "boolean")), "default": true},
            "ordered": {
              "type": \#(type(isPatch, "boolean")), "default": false,
              "description": "The next event only after the one before was accepted or given up."
            },
            "format": {"enum": ["standard", "cloudevents"\#(isPatch ? ", null" : "")], "default": "standard"},
            "retry": {"$ref": "#/components/schemas/WebhookRetry\#(isPatch ? "Patch" : "")"},
            "disable_after": {
              "type": \#(type(isPatch, "number")), "minimum": 3600, "maximum": 2592000, "default": 432000,
              "description": "Seconds of nothing but failures after which the endpoint is disabled."
            },
            "acknowledgement": {
              "oneOf": [
                {"type": "null"},
                {"$ref": "#/components/schemas/Acknowledgement\#(isPatch ? "Patch" : "Rules")"}
              ],
              "description": "Of jobs that end while the endpoint is enabled and is told of it, unless they \#
        or their sessions say otherwise."
            }
        """#
}

private func webhookRetry(isPatch: Bool) -> String {
    return #"""
        {
              "type": \#(type(isPatch, "object")), "additionalProperties": false,
              "properties": {
                "delays": {
                  "type": \#(type(isPatch, "array")), "maxItems": 30,
                  "items": {"type": "number", "minimum": 1, "maximum": 86400},
                  "description": "Seconds after the first, second, … try, each ±20 %; none: one try. As \#
        standard ten tries in 75 hours."
                }
              }
            }
        """#
}

private let webhookRequired = #"""
    "id", "revision", "created_at", "updated_at", "url", "events", "session", "metadata", "description",
        "enabled", "ordered", "format", "retry", "disable_after", "acknowledgement", "disabled_at",
        "disabled_reason", "failing_since", "public_key", "secret"
    """#

private let webhookShown = #"""
    "id": {"type": "string", "pattern": "^whk_"},
        "revision": {"type": "integer", "minimum": 1},
        "created_at": {"type": "string", "format": "date-time"},
        "updated_at": {"type": "string", "format": "date-time"},
        "url": {"$ref": "#/components/schemas/ShownURL"},
        "events": {"type": "array", "items": {"type": "string"}},
        "session": {"type": ["string", "null"]},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "description": {"type": ["string", "null"]},
        "enabled": {"type": "boolean"}, "ordered": {"type": "boolean"},
        "format": {"enum": ["standard", "cloudevents"]},
        "retry": {"$ref": "#/components/schemas/WebhookRetry"},
        "disable_after": {"type": "number"},
        "acknowledgement": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/AcknowledgementRules"}]
        },
        "disabled_at": {"type": ["string", "null"], "format": "date-time"},
        "disabled_reason": {
          "type": ["object", "null"], "required": ["code", "detail"],
          "properties": {
            "code": {"enum": ["requested", "gone", "failing"]}, "detail": {"type": "string"}
          }
        },
        "failing_since": {
          "type": ["string", "null"], "format": "date-time",
          "description": "The first failure since something was accepted."
        },
        "public_key": {
          "type": "string", "pattern": "^whpk_", "description": "Verifies v1a signatures (Ed25519)."
        }
    """#
