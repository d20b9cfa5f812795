internal import FerryCore

/// Bodies of responses, as JSON Schema 2020-12.
let answerSchemas = #"""
    "WaitingReason": {
      "type": "object", "description": "Why a job does not run.",
      "required": ["code", "detail", "next_check_at"],
      "properties": {
        "code": {"enum": \#(names(WaitingReason.Code.self)), "description": "Stable code of the reason."},
        "detail": {
          "type": "string",
          "description": "What has to happen before the job starts, as a sentence."
        },
        "next_check_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time at which the reason is checked again at the latest, or null if an event ends \#
    it."
        },
        "jobs": {
          "type": "array", "items": {"$ref": "#/components/schemas/JobID"},
          "description": "Only with the code dependency: the jobs that have not ended yet."
        }
      }
    },
    "JobID": {
      "type": "string", "description": "Identifier of a job.", "pattern": "^job_[0-7][0-9a-hjkmnp-tv-z]{25}$"
    },
    "JobState": {
      "enum": ["waiting", "queued", "running", "suspended", "succeeded", "failed", "cancelled"],
      "description": "State of a job. The terminal states are succeeded, failed and cancelled."
    },
    "Progress": {
      "type": "object",
      "description": "Progress of the running attempt. Without a running attempt: of the result, or of the \#
    bytes that are kept for a later attempt.",
      "required": [
        "bytes_received", "bytes_expected_to_receive", "bytes_sent", "bytes_expected_to_send",
        "fraction_completed", "bytes_per_second", "seconds_remaining", "resumed_at_offset"
      ],
      "properties": {
        "bytes_received": {"type": "integer", "description": "Bytes of the response body received so far."},
        "bytes_expected_to_receive": {
          "type": ["integer", "null"],
          "description": "Bytes of the whole response body, or null if not known."
        },
        "bytes_sent": {"type": "integer", "description": "Bytes of the request body sent so far."},
        "bytes_expected_to_send": {
          "type": ["integer", "null"],
          "description": "Bytes of the whole request body, or null if not known."
        },
        "fraction_completed": {
          "type": ["number", "null"],
          "description": "Completed part of the transfer, from 0 to 1, or null if the total is not known."
        },
        "bytes_per_second": {
          "type": "number",
          "description": "Transfer rate of the last seconds, in bytes per second."
        },
        "seconds_remaining": {
          "type": ["number", "null"],
          "description": "Estimated seconds until the end, or null if not known."
        },
        "resumed_at_offset": {
          "type": ["integer", "null"],
          "description": "Byte at which the download resumed; 0 if it restarted because the kept bytes \#
    could not be used; null if no bytes were kept."
        }
      }
    },
    "ShownURL": {
      "type": "string",
      "description": "A URL. Clients and admins see the whole URL. For viewers, and in events and webhooks, \#
    *** replaces user information and each value of the query.",
      "examples": ["https://store.example/a.csv?X-Amz-Expires=***&X-Amz-Signature=***"]
    },
    "Hidden": {
      "type": "object", "required": ["set"], "additionalProperties": false,
      "properties": {"set": {"type": "boolean", "description": "Always true."}},
      "description": "Shows that a secret value is set, without the value."
    },
    "ShownFieldValue": {
      "oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/Hidden"}],
      "description": "Value of a header field, or a mark that hides it."
    },
    "ShownHeaderField": {
      "type": "object", "required": ["name", "value"], "additionalProperties": false,
      "properties": {
        "name": {"type": "string", "description": "Name as it was sent."},
        "value": {"$ref": "#/components/schemas/ShownFieldValue", "description": "Value."}
      },
      "description": "One line of a header section."
    },
    "TransferResponse": {
      "type": "object",
      "description": "The last response of the server, after redirects.",
      "required": [
        "status", "url", "headers", "header_fields", "mime_type", "suggested_filename",
        "expected_content_length"
      ],
      "properties": {
        "status": {"type": "integer", "description": "HTTP status code."},
        "url": {
          "$ref": "#/components/schemas/ShownURL", "description": "URL of the response, after redirects."
        },
        "headers": {
          "type": "object", "additionalProperties": {"$ref": "#/components/schemas/ShownFieldValue"},
          "description": "Header fields by name; values of the same name are combined with a comma (RFC \#
    9110 §5.3). Set-Cookie is only in header_fields. Clients and admins see all values. Viewers, events and \#
    webhooks see the values of fields that carry no credentials."
        },
        "header_fields": {
          "type": "array", "items": {"$ref": "#/components/schemas/ShownHeaderField"},
          "description": "Every line of the header section in order."
        },
        "mime_type": {
          "type": ["string", "null"],
          "description": "Media type without parameters, in lower case, or null if the response has none."
        },
        "suggested_filename": {
          "type": ["string", "null"],
          "description": "Safe file name from Content-Disposition, or else from the URL; null if there is \#
    none."
        },
        "expected_content_length": {
          "type": ["integer", "null"],
          "description": "Bytes of the body that the response announces, or null if it announces none."
        },
        "body_excerpt": {
          "type": "string",
          "description": "First 2 KiB of a text body that is not stored: the response to an upload, or a \#
    response that was not accepted. Absent if there is none."
        }
      }
    },
    "TransferLimits": {
      "type": "object",
      "description": "Rate limits of all transfers, in bytes per second; null means no limit.",
      "required": [
        "max_bytes_received_per_second", "max_bytes_sent_per_second", "max_bytes_per_second_per_host"
      ],
      "properties": {
        "max_bytes_received_per_second": {
          "type": ["integer", "null"],
          "description": "Bytes received per second, by all nodes together; null means no limit."
        },
        "max_bytes_sent_per_second": {
          "type": ["integer", "null"],
          "description": "Bytes sent per second, by all nodes together; null means no limit."
        },
        "max_bytes_per_second_per_host": {
          "type": ["integer", "null"],
          "description": "Bytes per second with each host, on each node, both directions together; null \#
    means no limit."
        }
      }
    },
    "LimitsPatch": {
      "type": "object", "additionalProperties": false,
      "description": "A merge patch (RFC 7396): absent members stay as they are, null removes a limit.",
      "properties": {
        "max_bytes_received_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Bytes received per second, by all nodes together; null means no limit."
        },
        "max_bytes_sent_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Bytes sent per second, by all nodes together; null means no limit."
        },
        "max_bytes_per_second_per_host": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Bytes per second with each host, on each node, both directions together; null \#
    means no limit."
        }
      }
    },
    "TransferResult": {
      "type": "object", "description": "Received or sent bytes of a succeeded job.",
      "required": ["path", "size", "sha256", "verified", "body", "content_url"],
      "properties": {
        "path": {
          "type": ["string", "null"],
          "description": "Path of the file below the tenant's storage root, or null if the job has no \#
    destination."
        },
        "size": {
          "type": "integer",
          "description": "Bytes of the received file or body, or of the sent file."
        },
        "sha256": {"type": "string", "description": "SHA-256 of these bytes, in lower-case hexadecimal."},
        "verified": {
          "enum": ["digest", "length", "none"],
          "description": "Check of the received bytes: digest, length, or none if the body ended with its \#
    connection."
        },
        "body": {
          "oneOf": [{"type": ["string", "null"]}, {"$ref": "#/components/schemas/InlineBase64"}],
          "description": "Short body of a data job: a string if it is UTF-8, else an object with its \#
    base64. Null in lists, and without a short body."
        },
        "content_url": {
          "type": ["string", "null"],
          "description": "Path of the request that returns the received bytes, or null for an upload."
        },
        "resumed_at_offset": {
          "type": "integer",
          "description": "Byte at which the download resumed; 0 if it restarted. Absent if no bytes were \#
    kept."
        },
        "parts": {
          "$ref": "#/components/schemas/ResultParts",
          "description": "Only of a data job whose response was multipart/x-mixed-replace."
        }
      }
    },
    "ResultParts": {
      "type": "object",
      "description": "Parts of a multipart/x-mixed-replace response. Each part replaces the one before; the \#
    last complete part is the result.",
      "required": ["count", "mime_type"],
      "properties": {
        "count": {"type": "integer", "description": "Number of complete parts."},
        "mime_type": {
          "type": ["string", "null"],
          "description": "Media type of the last part, or null if it has none."
        }
      }
    },
    "JobList": {
      "type": "object", "description": "A page of jobs.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Job"},
          "description": "The jobs of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "BatchRequest": {
      "type": "object", "description": "Jobs that are submitted together.", "required": ["jobs"],
      "additionalProperties": false,
      "properties": {
        "jobs": {
          "type": "array", "minItems": 1, "maxItems": 10000,
          "items": {"$ref": "#/components/schemas/JobRequest"},
          "description": "The jobs. Either all are accepted, or none."
        }
      }
    },
    "BatchAnswer": {
      "type": "object", "description": "The accepted jobs of a batch.", "required": ["data"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/BatchEntry"},
          "description": "The jobs, in the order of the request."
        }
      }
    },
    "BatchEntry": {
      "type": "object", "description": "An accepted job of a batch.", "required": ["id", "state"],
      "properties": {
        "id": {"$ref": "#/components/schemas/JobID"},
        "state": {"$ref": "#/components/schemas/JobState"}
      }
    },
    "CancelRequest": {
      "type": "object", "description": "Options of a cancellation.", "additionalProperties": false,
      "properties": {
        "produce_resume_data": {
          "type": "boolean", "default": false,
          "description": "true keeps the bytes of a download for another job, which gets them by resume_data."
        }
      }
    },
    "EmptyRequest": {"type": "object", "description": "An object without members.", "maxProperties": 0},
    "Problem": {
      "type": "object", "description": "An error response (RFC 9457).",
      "required": ["type", "title", "status", "detail", "code", "request_id"],
      "properties": {
        "type": {
          "type": "string", "format": "uri-reference",
          "description": "URI reference of the documentation of the code."
        },
        "title": {"type": "string", "description": "Kind of the problem, the same text for each code."},
        "status": {"type": "integer", "description": "HTTP status code of the response."},
        "detail": {"type": "string", "description": "What is wrong with this request, as a sentence."},
        "code": {"type": "string", "description": "Stable code of the problem; /docs explains it."},
        "request_id": {
          "type": "string",
          "description": "Identifier of the request, as in X-Request-Id and the log."
        },
        "state": {
          "$ref": "#/components/schemas/JobState",
          "description": "State of the job. Only with the code invalid_state."
        },
        "waiting_for": {
          "type": "string",
          "description": "What the job waits for. Only with the state waiting."
        },
        "revision": {
          "type": "integer",
          "description": "Current revision of the object. Only with the code stale."
        },
        "errors": {
          "type": "array", "items": {"$ref": "#/components/schemas/FieldError"},
          "description": "The wrong fields of the body. Absent if no field is wrong."
        }
      }
    },
    "FieldError": {
      "type": "object",
      "description": "An error of one field of the request's body.",
      "required": ["pointer", "code", "detail"],
      "properties": {
        "pointer": {
          "type": "string", "examples": ["#/request/url"],
          "description": "JSON Pointer of the field, as a URI fragment."
        },
        "code": {"type": "string", "description": "Stable code of the error."},
        "detail": {"type": "string", "description": "The error as a sentence."}
      }
    }
    """#
