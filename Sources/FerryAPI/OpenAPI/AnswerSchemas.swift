internal import FerryCore

/// Bodies of responses, as JSON Schema 2020-12.
let answerSchemas = #"""
    "WaitingReason": {
      "type": "object", "description": "Why a job does not run.",
      "required": ["code", "detail", "next_check_at"],
      "properties": {
        "code": {"enum": \#(names(WaitingReason.Code.self)), "description": "Stable code of the reason."},
        "detail": {"type": "string", "description": "What would have to happen for the job to start."},
        "next_check_at": {
          "type": ["string", "null"], "format": "date-time", "description": "Time of the next check."
        },
        "jobs": {
          "type": "array", "items": {"$ref": "#/components/schemas/JobID"},
          "description": "With the code dependency: those that have not ended yet."
        }
      }
    },
    "JobID": {"type": "string", "pattern": "^job_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "JobState": {
      "enum": ["waiting", "queued", "running", "suspended", "succeeded", "failed", "cancelled"]
    },
    "Progress": {
      "type": "object",
      "description": "Of the attempt that runs; between attempts, and of a job that has ended without a \#
    result, the bytes that are kept for another one.",
      "required": [
        "bytes_received", "bytes_expected_to_receive", "bytes_sent", "bytes_expected_to_send",
        "fraction_completed", "bytes_per_second", "seconds_remaining", "resumed_at_offset"
      ],
      "properties": {
        "bytes_received": {"type": "integer"},
        "bytes_expected_to_receive": {"type": ["integer", "null"]},
        "bytes_sent": {"type": "integer"},
        "bytes_expected_to_send": {"type": ["integer", "null"]},
        "fraction_completed": {"type": ["number", "null"]},
        "bytes_per_second": {"type": "number"},
        "seconds_remaining": {"type": ["number", "null"]},
        "resumed_at_offset": {
          "type": ["integer", "null"],
          "description": "Where a download went on from bytes that were there; 0: they were of no use."
        }
      }
    },
    "ShownURL": {
      "type": "string",
      "description": "Clients and admins see all of it. For viewers, events and webhooks *** stands for \#
    user information and for each value of the query.",
      "examples": ["https://store.example/a.csv?X-Amz-Expires=***&X-Amz-Signature=***"]
    },
    "Hidden": {
      "type": "object", "required": ["set"], "additionalProperties": false,
      "properties": {"set": {"type": "boolean", "description": "true."}},
      "description": "There is a value, and it is not shown."
    },
    "ShownFieldValue": {
      "oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/Hidden"}],
      "description": "Value of a header field, or that there is one."
    },
    "TransferResponse": {
      "type": "object",
      "description": "What the server said, of the last hop.",
      "required": [
        "status", "url", "headers", "mime_type", "suggested_filename", "expected_content_length"
      ],
      "properties": {
        "status": {"type": "integer"}, "url": {"$ref": "#/components/schemas/ShownURL"},
        "headers": {
          "type": "object",
          "additionalProperties": {"$ref": "#/components/schemas/ShownFieldValue"},
          "description": "Clients and admins see all values; viewers, events and webhooks those of fields \#
    that carry no credential."
        },
        "mime_type": {"type": ["string", "null"]},
        "suggested_filename": {"type": ["string", "null"]},
        "expected_content_length": {"type": ["integer", "null"]},
        "body_excerpt": {
          "type": "string",
          "description": "The first 2 KiB of a text that is not kept: of the answer to an upload, and of \#
          one that was refused. Absent when there is none."
        }
      }
    },
    "TransferLimits": {
      "type": "object",
      "description": "Bytes a second; null is no limit. The first two are of all nodes together, parted \#
    by the jobs of each; the third is of each host, both directions together, on each node.",
      "required": [
        "max_bytes_received_per_second", "max_bytes_sent_per_second", "max_bytes_per_second_per_host"
      ],
      "properties": {
        "max_bytes_received_per_second": {"type": ["integer", "null"]},
        "max_bytes_sent_per_second": {"type": ["integer", "null"]},
        "max_bytes_per_second_per_host": {"type": ["integer", "null"]}
      }
    },
    "LimitsPatch": {
      "type": "object", "additionalProperties": false,
      "description": "A merge patch (RFC 7396): what is absent stays, null is no limit.",
      "properties": {
        "max_bytes_received_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991
        },
        "max_bytes_sent_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991
        },
        "max_bytes_per_second_per_host": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991
        }
      }
    },
    "TransferResult": {
      "type": "object",
      "required": ["path", "size", "sha256", "verified", "body", "content_url"],
      "properties": {
        "path": {"type": ["string", "null"]}, "size": {"type": "integer"}, "sha256": {"type": "string"},
        "verified": {"enum": ["digest", "length", "none"]},
        "body": {
          "description": "A data job's short body: text, or base64 when it is no UTF-8. Null in lists.",
          "oneOf": [
            {"type": ["string", "null"]},
            {"type": "object", "required": ["base64"], "properties": {"base64": {"type": "string"}}}
          ]
        },
        "content_url": {"type": ["string", "null"]},
        "resumed_at_offset": {"type": "integer", "description": "As in progress, if it was resumed."},
        "parts": {
          "type": "object", "required": ["count", "mime_type"],
          "description": "Of a data job whose answer was multipart/x-mixed-replace: each part takes the \#
    place of the one before, and the last whole one is the result.",
          "properties": {
            "count": {"type": "integer"}, "mime_type": {"type": ["string", "null"]}
          }
        }
      }
    },
    "JobList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Job"}},
        "next_cursor": {"type": ["string", "null"]}
      }
    },
    "BatchRequest": {
      "type": "object", "required": ["jobs"], "additionalProperties": false,
      "properties": {
        "jobs": {
          "type": "array", "minItems": 1, "maxItems": 10000,
          "items": {"$ref": "#/components/schemas/JobRequest"}
        }
      }
    },
    "BatchAnswer": {
      "type": "object", "required": ["data"],
      "properties": {
        "data": {
          "type": "array",
          "items": {
            "type": "object", "required": ["id", "state"],
            "properties": {
              "id": {"$ref": "#/components/schemas/JobID"},
              "state": {"$ref": "#/components/schemas/JobState"}
            }
          }
        }
      }
    },
    "CancelRequest": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "produce_resume_data": {
          "type": "boolean", "default": false,
          "description": "Whether what a download has got is left to another job, as resume_data."
        }
      }
    },
    "EmptyRequest": {"type": "object", "maxProperties": 0},
    "Status": {
      "type": "object",
      "required": [
        "version", "uptime_seconds", "paused", "nodes", "jobs", "oldest_queued_seconds", "throughput",
        "database", "storage", "webhooks"
      ],
      "properties": {
        "version": {"type": "string"}, "uptime_seconds": {"type": "number"},
        "paused": {"type": "boolean", "description": "Operators have it begin nothing new."},
        "nodes": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["id", "heartbeat_age_seconds", "running", "draining"],
            "properties": {
              "id": {"type": "string"},
              "heartbeat_age_seconds": {"type": "number"},
              "running": {"type": "integer"}, "draining": {"type": "boolean"}
            }
          }
        },
        "jobs": {
          "type": "object",
          "required": ["waiting", "queued", "running", "suspended"],
          "description": "Exact: a job that was accepted is counted until its terminal state has \#
    committed.",
          "additionalProperties": {"type": "integer"}
        },
        "oldest_queued_seconds": {
          "type": ["number", "null"],
          "description": "For how long the oldest queued job has been queued: since it was accepted, or \#
    since it last stopped waiting or was given back. Of the jobs that go first in their queues: one a \#
    session, and one a host where something limits it. A request looks at 200 queues, the next one to the \#
    same node at the next 200, and the job that was found is kept while it is queued."
        },
        "throughput": {"type": "object", "additionalProperties": {"type": "number"}},
        "database": {
          "type": "object",
          "properties": {"ok": {"type": "boolean"}, "round_trip_seconds": {"type": ["number", "null"]}}
        },
        "storage": {
          "type": "object",
          "properties": {
            "free_bytes": {
              "type": ["integer", "null"],
              "description": "On that disk of the node that answers which has the least room for files."
            },
            "holds_downloads": {
              "type": "boolean",
              "description": "The node that answers begins none: its disk is nearly full or not writable."
            }
          }
        },
        "webhooks": {
          "type": "object",
          "properties": {
            "pending": {"type": "integer"},
            "oldest_pending_seconds": {"type": ["number", "null"]}
          }
        }
      }
    },
    "Problem": {
      "type": "object", "description": "RFC 9457.",
      "required": ["type", "title", "status", "detail", "code", "request_id"],
      "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"}, "status": {"type": "integer"}, "detail": {"type": "string"},
        "code": {"type": "string", "description": "Stable; see /docs."},
        "request_id": {"type": "string"},
        "state": {"$ref": "#/components/schemas/JobState"},
        "waiting_for": {"type": "string", "description": "Of a job in state waiting, as it shows it."},
        "revision": {"type": "integer"},
        "errors": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["pointer", "code", "detail"],
            "properties": {
              "pointer": {"type": "string", "description": "A JSON Pointer as a URI fragment."},
              "code": {"type": "string"}, "detail": {"type": "string"}
            }
          }
        }
      }
    }
    """#
