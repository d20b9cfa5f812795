internal import FerryCore

/// A regular expression, escaped for JSON.
private func pattern(_ text: String) -> String { text.replacing("\\", with: "\\\\") }

/// Parameters and header fields that several operations share.
let parameterComponents = #"""
    "Session": {
      "name": "session", "in": "query",
      "schema": {
        "type": "string", "minLength": 1, "maxLength": 128,
        "pattern": "^(?!\\.{1,2}$)[A-Za-z0-9._~:@-]{1,128}$"
      }
    },
    "State": {
      "name": "state", "in": "query", "explode": false,
      "schema": {
        "type": "array", "items": {"$ref": "#/components/schemas/JobState"}, "minItems": 1,
        "maxItems": \#(JobState.allCases.count)
      },
      "description": "Any of these."
    },
    "Kind": {"name": "kind", "in": "query", "schema": {"enum": ["download", "upload", "data"]}},
    "Host": {
      "name": "host", "in": "query",
      "schema": {
        "type": "string", "minLength": 1, "maxLength": \#(HostReference.characterCountMax),
        "pattern": "\#(pattern(HostReference.pattern))"
      },
      "examples": {"name": {"value": "example.org"}, "origin": {"value": "https://example.org:8443"}},
      "description": "Of request.url: a name with any port, host:port with any scheme, or an origin."
    },
    "CreatedAfter": {
      "name": "created_after", "in": "query",
      "schema": {"type": "string", "format": "date-time"}
    },
    "Schedule": {
      "name": "schedule", "in": "query", "schema": {"$ref": "#/components/schemas/ScheduleID"},
      "description": "Only jobs that this schedule has submitted."
    },
    "Metadata": {
      "name": "metadata.KEY", "in": "query",
      "schema": {
        "type": "string", "maxLength": \#(Limits.metadataValueByteCountMax), "pattern": "^[^\\u0000]*$"
      },
      "description": "KEY stands for a name in metadata; may be given for several names, all must match."
    },
    "Acknowledged": {
      "name": "acknowledged", "in": "query", "schema": {"const": "false"},
      "description": "Only terminal jobs that wait for their acknowledgement."
    },
    "Limit": {
      "name": "limit", "in": "query",
      "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
      "description": "A page may be shorter, or empty, where few entries match: the list ends where \#
    next_cursor is null."
    },
    "SessionCursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 9, "maxLength": 136,
        "pattern": "^session\\.(?!\\.{1,2}$)[A-Za-z0-9._~:@-]{1,128}$"
      },
      "description": "next_cursor of the page before; what it is made of may change."
    },
    "TenantCursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 8, "maxLength": 135, "pattern": "^tenant\\.[a-z0-9_-]{1,128}$"
      },
      "description": "next_cursor of the page before; what it is made of may change."
    },
    "Cursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 26, "maxLength": 26, "pattern": "^[0-7][0-9a-hjkmnp-tv-z]{25}$"
      },
      "description": "next_cursor of the page before, also of an empty one; what it is made of may change."
    },
    "EventTypes": {
      "name": "type", "in": "query", "explode": false,
      "schema": {
        "type": "array", "items": {"$ref": "#/components/schemas/AnyEventType"}, "minItems": 1,
        "maxItems": \#(EventType.allCases.count)
      }
    },
    "Since": {"name": "since", "in": "query", "schema": {"type": "string", "format": "date-time"}},
    "Progress": {
      "name": "progress", "in": "query", "schema": {"type": "boolean"},
      "description": "Of a stream: false leaves out how far the running jobs of this node are, which it \#
    tells twice a second at most. Lists refuse it."
    },
    "LastEventID": {
      "name": "Last-Event-ID", "in": "header", "schema": {"type": "string"},
      "description": "Of a stream: it goes on after this event (evt_…). Lists do not look at it."
    },
    "DeliveryState": {
      "name": "state", "in": "query", "schema": {"enum": ["pending", "accepted", "given_up"]}
    },
    "DeliveryType": {
      "name": "type", "in": "query",
      "schema": {
        "anyOf": [{"$ref": "#/components/schemas/AnyEventType"}, {"const": "webhook.ping"}]
      }
    },
    "HostCursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 1, "maxLength": \#(HostReference.characterCountMax),
        "pattern": "\#(pattern(HostReference.originPattern))"
      },
      "description": "next_cursor of the page before; what it is made of may change."
    },
    "HostName": {
      "name": "host", "in": "path", "required": true,
      "schema": {
        "type": "string", "minLength": 1, "maxLength": \#(HostReference.characterCountMax),
        "pattern": "\#(pattern(HostReference.pattern))"
      },
      "examples": {"origin": {"value": "https://example.org:443"}, "name": {"value": "example.org"}},
      "description": "An origin, percent-encoded; a name without a scheme means https."
    },
    "Verbose": {
      "name": "verbose", "in": "query", "allowEmptyValue": true,
      "schema": {
        "type": "string", "maxLength": \#(Limits.nameByteCountMax), "pattern": "^[^\\u0000]*$"
      }
    },
    "IdempotencyKey": {
      "name": "Idempotency-Key", "in": "header",
      "schema": {
        "type": "string", "minLength": 1, "maxLength": 257,
        "pattern": "^([!#-~][!-~]{0,254}|\"[!#-~]{1,255}\")$"
      },
      "description": "Names one request of the tenant, whatever its method and path. The same request with \#
    the same key gets the first answer again; another method, path or body is refused with 422 \#
    idempotency_key_reused. Kept for 24 hours."
    },
    "Prefer": {
      "name": "Prefer", "in": "header",
      "schema": {"type": "string", "examples": ["wait=30"]},
      "description": "wait=N holds the answer until the job is terminal or N seconds (at most 60) are \#
    over."
    },
    "Traceparent": {
      "name": "traceparent", "in": "header", "schema": {"type": "string"},
      "description": "W3C Trace Context; without a valid one a new trace begins. tracestate goes with it."
    },
    "IfMatch": {"name": "If-Match", "in": "header", "schema": {"type": "string", "examples": ["\"r3\""]}},
    "IfNoneMatch": {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}},
    "Range": {
      "name": "Range", "in": "header",
      "schema": {"type": "string", "examples": ["bytes=0-99"]},
      "description": "One range; several are answered with everything."
    },
    "IfRange": {"name": "If-Range", "in": "header", "schema": {"type": "string"}}
    """#

let headerComponents = #"""
    "X-Request-Id": {
      "required": true, "schema": {"type": "string"},
      "description": "Taken over from the request when it is fit, else made."
    },
    "ETag": {"schema": {"type": "string"}},
    "Location": {"schema": {"type": "string"}},
    "Link": {"schema": {"type": "string"}, "description": "rel=\"next\" when there is a next page."},
    "Preference-Applied": {"schema": {"type": "string"}},
    "Idempotency-Replayed": {"schema": {"const": "true"}},
    "Accept-Ranges": {"schema": {"const": "bytes"}},
    "Content-Disposition": {"schema": {"type": "string"}},
    "Content-Range": {"schema": {"type": "string"}},
    "Repr-Digest": {
      "schema": {"type": "string"},
      "description": "RFC 9530, sha-256 of the whole content."
    },
    "Digest": {"schema": {"type": "string"}},
    "Allow": {"required": true, "schema": {"type": "string"}},
    "Retry-After": {"schema": {"type": "integer"}},
    "WWW-Authenticate": {"required": true, "schema": {"type": "string"}},
    "RateLimit": {"schema": {"type": "string"}},
    "RateLimit-Policy": {"schema": {"type": "string"}}
    """#

let webhookSection = #"""
    {
      "job": {
        "post": {
          "summary": "A job has ended",
          "description": "Standard Webhooks 1.0. 2xx accepts, 410 gives up; anything else, and 15 \#
    seconds without an answer, is retried for days. Delivered at least once: webhook-id is the same on \#
    every try.",
          "parameters": [
            {"name": "webhook-id", "in": "header", "required": true, "schema": {"type": "string"}},
            {"name": "webhook-timestamp", "in": "header", "required": true, "schema": {"type": "string"}},
            {
              "name": "webhook-signature", "in": "header", "required": true, "schema": {"type": "string"},
              "description": "v1, and the base64 of HMAC-SHA256 over id.timestamp.body; to endpoints \#
    also v1a, and that of Ed25519. During a rotation several of them, separated by spaces."
            }
          ],
          "requestBody": {
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Event"}}}
          },
          "responses": {
            "2XX": {"description": "Accepted."},
            "410": {"description": "Do not send this any more."}
          }
        }
      }
    }
    """#
