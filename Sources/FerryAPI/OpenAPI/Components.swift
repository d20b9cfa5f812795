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
      },
      "description": "Only jobs or events of this session."
    },
    "State": {
      "name": "state", "in": "query", "explode": false,
      "schema": {
        "type": "array", "items": {"$ref": "#/components/schemas/JobState"}, "minItems": 1,
        "maxItems": \#(JobState.allCases.count)
      },
      "description": "Only jobs in one of these states."
    },
    "Kind": {
      "name": "kind", "in": "query", "schema": {"enum": ["download", "upload", "data"]},
      "description": "Only jobs of this kind."
    },
    "Host": {
      "name": "host", "in": "query",
      "schema": {
        "type": "string", "minLength": 1, "maxLength": \#(HostReference.characterCountMax),
        "pattern": "\#(pattern(HostReference.pattern))"
      },
      "examples": {"name": {"value": "example.org"}, "origin": {"value": "https://example.org:8443"}},
      "description": "Only jobs whose request.url is at this host: a name with any port, host:port with any \#
    scheme, or an origin."
    },
    "CreatedAfter": {
      "name": "created_after", "in": "query", "schema": {"type": "string", "format": "date-time"},
      "description": "Only jobs that were submitted after this time."
    },
    "Schedule": {
      "name": "schedule", "in": "query", "schema": {"$ref": "#/components/schemas/ScheduleID"},
      "description": "Only jobs that this schedule submitted."
    },
    "Metadata": {
      "name": "metadata.KEY", "in": "query",
      "schema": {
        "type": "string", "maxLength": \#(Limits.metadataValueByteCountMax), "pattern": "^[^\\u0000]*$"
      },
      "description": "Only jobs whose metadata has this value for the name KEY. If several names are given, \#
    all must match."
    },
    "Acknowledged": {
      "name": "acknowledged", "in": "query", "schema": {"const": "false"},
      "description": "Only terminal jobs that wait for their acknowledgement."
    },
    "Limit": {
      "name": "limit", "in": "query",
      "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
      "description": "Number of entries of a page, at most. A page may have fewer entries, or none: the \#
    list ends where next_cursor is null."
    },
    "SessionCursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 9, "maxLength": 136,
        "pattern": "^session\\.(?!\\.{1,2}$)[A-Za-z0-9._~:@-]{1,128}$"
      },
      "description": "next_cursor of the page before. Its format may change."
    },
    "TenantCursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 8, "maxLength": 135, "pattern": "^tenant\\.[a-z0-9_-]{1,128}$"
      },
      "description": "next_cursor of the page before. Its format may change."
    },
    "Cursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 26, "maxLength": 26, "pattern": "^[0-7][0-9a-hjkmnp-tv-z]{25}$"
      },
      "description": "next_cursor of the page before, also of an empty page. Its format may change."
    },
    "EventTypes": {
      "name": "type", "in": "query", "explode": false,
      "schema": {
        "type": "array", "items": {"$ref": "#/components/schemas/AnyEventType"}, "minItems": 1,
        "maxItems": \#(EventType.allCases.count)
      },
      "description": "Only events of these types."
    },
    "Since": {
      "name": "since", "in": "query", "schema": {"type": "string", "format": "date-time"},
      "description": "Only events from this time on."
    },
    "Progress": {
      "name": "progress", "in": "query", "schema": {"type": "boolean"},
      "description": "Only for streams: false omits the progress of jobs that run on this node, which is \#
    sent at most twice a second. Lists reject this parameter."
    },
    "LastEventID": {
      "name": "Last-Event-ID", "in": "header", "schema": {"type": "string"},
      "description": "Only for streams: the stream continues after this event (evt_…). Lists ignore it."
    },
    "DeliveryState": {
      "name": "state", "in": "query", "schema": {"enum": ["pending", "accepted", "given_up"]},
      "description": "Only deliveries in this state."
    },
    "DeliveryType": {
      "name": "type", "in": "query",
      "schema": {"anyOf": [{"$ref": "#/components/schemas/AnyEventType"}, {"const": "webhook.ping"}]},
      "description": "Only deliveries of events of this type."
    },
    "HostCursor": {
      "name": "cursor", "in": "query",
      "schema": {
        "type": "string", "minLength": 1, "maxLength": \#(HostReference.characterCountMax),
        "pattern": "\#(pattern(HostReference.originPattern))"
      },
      "description": "next_cursor of the page before. Its format may change."
    },
    "HostName": {
      "name": "host", "in": "path", "required": true,
      "schema": {
        "type": "string", "minLength": 1, "maxLength": \#(HostReference.characterCountMax),
        "pattern": "\#(pattern(HostReference.pattern))"
      },
      "examples": {"origin": {"value": "https://example.org:443"}, "name": {"value": "example.org"}},
      "description": "An origin, percent-encoded. A name without a scheme means https."
    },
    "Verbose": {
      "name": "verbose", "in": "query", "allowEmptyValue": true,
      "schema": {"type": "string", "maxLength": \#(Limits.nameByteCountMax), "pattern": "^[^\\u0000]*$"},
      "description": "Adds a line for each check to the response."
    },
    "IdempotencyKey": {
      "name": "Idempotency-Key", "in": "header",
      "schema": {
        "type": "string", "minLength": 1, "maxLength": 257,
        "pattern": "^([!#-~][!-~]{0,254}|\"[!#-~]{1,255}\")$"
      },
      "description": "Identifies one request of the tenant, whatever its method and path. A repetition with \#
    the same key gets the first response again; the order of members and white space of the body do not \#
    matter. Another method, path or body gets 422 idempotency_key_reused. Kept for 24 hours."
    },
    "Prefer": {
      "name": "Prefer", "in": "header", "schema": {"type": "string", "examples": ["wait=30"]},
      "description": "wait=N delays the response until the job is terminal or N seconds have passed, at \#
    most 60."
    },
    "Traceparent": {
      "name": "traceparent", "in": "header", "schema": {"type": "string"},
      "description": "Trace of the client (W3C Trace Context). Without a valid value a new trace begins. \#
    tracestate is passed on with it."
    },
    "IfMatch": {
      "name": "If-Match", "in": "header", "schema": {"type": "string", "examples": ["\"r3\""]},
      "description": "The request is carried out only if the object has this ETag; otherwise the response \#
    is 412."
    },
    "IfNoneMatch": {
      "name": "If-None-Match", "in": "header", "schema": {"type": "string"},
      "description": "If the object has this ETag, the response is 304."
    },
    "Range": {
      "name": "Range", "in": "header", "schema": {"type": "string", "examples": ["bytes=0-99"]},
      "description": "A range of bytes. A request for several ranges gets the whole content."
    },
    "IfRange": {
      "name": "If-Range", "in": "header", "schema": {"type": "string"},
      "description": "The range is sent only if the content still has this ETag; otherwise the whole \#
    content is sent."
    }
    """#

let headerComponents = #"""
    "X-Request-Id": {
      "required": true, "schema": {"type": "string"},
      "description": "Identifier of the request: that of the request if it is valid, else a new one."
    },
    "ETag": {"schema": {"type": "string"}, "description": "Version of the object or content."},
    "Location": {"schema": {"type": "string"}, "description": "Path of the created object."},
    "Link": {
      "schema": {"type": "string"},
      "description": "rel=\"next\" with the URL of the next page, if there is one."
    },
    "Preference-Applied": {
      "schema": {"type": "string"},
      "description": "The preference of the request that was applied."
    },
    "Idempotency-Replayed": {
      "schema": {"const": "true"},
      "description": "The response repeats the first one with this Idempotency-Key."
    },
    "Accept-Ranges": {"schema": {"const": "bytes"}, "description": "Unit of ranges."},
    "Content-Disposition": {"schema": {"type": "string"}, "description": "File name of the content."},
    "Content-Range": {"schema": {"type": "string"}, "description": "Range of the content."},
    "Repr-Digest": {"schema": {"type": "string"}, "description": "SHA-256 of the whole content (RFC 9530)."},
    "Digest": {"schema": {"type": "string"}, "description": "SHA-256 of the whole content (RFC 3230)."},
    "Allow": {"required": true, "schema": {"type": "string"}, "description": "Methods of the path."},
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds after which to try again."},
    "WWW-Authenticate": {
      "required": true, "schema": {"type": "string"}, "description": "Scheme of the credentials: Bearer."
    },
    "RateLimit": {"schema": {"type": "string"}, "description": "Remaining quotas."},
    "RateLimit-Policy": {"schema": {"type": "string"}, "description": "Quotas and their periods."}
    """#

let webhookSection = #"""
    {
      "job": {
        "post": {
          "summary": "An event has occurred",
          "description": "Sent as Standard Webhooks 1.0. 2xx accepts the delivery, 410 gives it up. \#
    Any other status, and 15 seconds without a response, is followed by another try, for about three days. \#
    A delivery may arrive more than once: webhook-id is the same on every try.",
          "parameters": [
            {"name": "webhook-id", "in": "header", "required": true, "schema": {"type": "string"}},
            {"name": "webhook-timestamp", "in": "header", "required": true, "schema": {"type": "string"}},
            {
              "name": "webhook-signature", "in": "header", "required": true, "schema": {"type": "string"},
              "description": "v1, and the base64 of HMAC-SHA256 over id.timestamp.body. Endpoints also get \#
    v1a, and the base64 of an Ed25519 signature. One entry for each valid key, separated by spaces."
            }
          ],
          "requestBody": {
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Event"}}}
          },
          "responses": {
            "2XX": {"description": "The delivery is accepted."},
            "410": {"description": "The delivery is given up, and an endpoint is disabled."}
          }
        }
      }
    }
    """#
