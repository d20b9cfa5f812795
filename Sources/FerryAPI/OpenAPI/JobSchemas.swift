/// Submitted jobs, as JSON Schema 2020-12. `const` marks features that this version does not implement.
let jobRequestSchemas = #"""
    "JobRequest": {
      "description": "A job to be done. Only kind and request.url are required, and source for uploads.",
      "oneOf": [
        {"$ref": "#/components/schemas/DownloadRequest"},
        {"$ref": "#/components/schemas/UploadRequest"},
        {"$ref": "#/components/schemas/DataRequest"}
      ],
      "examples": [
        {
          "kind": "download",
          "request": {"url": "https://example.org/a.csv"},
          "destination": {"path": "reports/a.csv"}
        }
      ]
    },
    "JobCommon": {
      "type": "object",
      "properties": {
        "session": {"$ref": "#/components/schemas/SessionName", "default": "default"},
        "description": {
          "type": ["string", "null"], "maxLength": 1024, "pattern": "^[^\\u0000]*$",
          "description": "At most 1,024 bytes of UTF-8, without U+0000."
        },
        "metadata": {
          "type": "object", "maxProperties": 50,
          "propertyNames": {"minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$"},
          "additionalProperties": {"type": "string", "maxLength": 2048, "pattern": "^[^\\u0000]*$"},
          "description": "Names of at most 128 bytes, values of at most 2,048."
        },
        "mirrors": {
          "type": "array", "maxItems": 16, "uniqueItems": true,
          "items": {"type": "string", "format": "uri", "maxLength": 8192}, "default": [],
          "description": "Other URLs of the same file, for downloads by GET: tried in the order of their \#
    measured quality. Credentials among the request's headers are sent to its own origin only."
        },
        "integrity": {"$ref": "#/components/schemas/Integrity"},
        "resume_data": {
          "type": ["string", "null"], "minLength": 1, "maxLength": 16384,
          "description": "What a cancelled or failed job of the same URL has shown: the download goes on \#
    from its bytes, or begins at 0 when they are gone."
        },
        "redirects": {"$ref": "#/components/schemas/Redirects"},
        "accept": {"$ref": "#/components/schemas/Acceptance"},
        "on_challenge": {
          "enum": ["fail", "ask"], "default": "fail",
          "description": "ask: after a 401, or a 407 of the job's own proxy, somebody may give a credential \#
    (POST …/challenge)."
        },
        "questions": {"$ref": "#/components/schemas/QuestionRules"},
        "acknowledgement": {
          "oneOf": [
            {"type": "null"}, {"const": false}, {"$ref": "#/components/schemas/AcknowledgementRules"}
          ],
          "description": "Standard: the session's."
        },
        "schedule": {"$ref": "#/components/schemas/Schedule"},
        "network": {"$ref": "#/components/schemas/Network"},
        "retry": {"$ref": "#/components/schemas/Retry"},
        "segments": {
          "type": "integer", "minimum": 1, "maximum": 64, "default": 1,
          "description": "Parts of the file that are fetched at once, at most; for downloads by GET. Where \#
    the server does not give ranges safely, it is one."
        },
        "webhook": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/WebhookRequest"}]}
      }
    },
    "DownloadRequest": {
      "description": "Fetches a file. Succeeds on a 2xx answer unless accept.status says otherwise.",
      "allOf": [{"$ref": "#/components/schemas/JobCommon"}],
      "type": "object", "required": ["kind", "request"],
      "properties": {
        "kind": {"const": "download"},
        "request": {"$ref": "#/components/schemas/DownloadHTTPRequest"},
        "destination": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Destination"}]},
        "source": {"type": "null"}
      },
      "if": {
        "anyOf": [
          {"required": ["segments"], "properties": {"segments": {"minimum": 2}}},
          {"required": ["mirrors"], "properties": {"mirrors": {"minItems": 1}}}
        ]
      },
      "then": {
        "properties": {
          "request": {
            "properties": {"method": {"const": "GET"}, "accept_encoding": {"const": "identity"}}
          },
          "on_challenge": {"const": "fail"},
          "redirects": {"properties": {"policy": {"enum": ["follow", "reject"]}}}
        }
      },
      "unevaluatedProperties": false
    },
    "UploadRequest": {
      "description": "Sends a file, what another job has left, or inline bytes, as they are or in a \#
    form. Succeeds on a 2xx answer unless accept.status says \#
    otherwise.",
      "allOf": [{"$ref": "#/components/schemas/JobCommon"}],
      "type": "object",
      "required": ["kind", "request", "source"],
      "properties": {
        "kind": {"const": "upload"},
        "request": {"$ref": "#/components/schemas/UploadHTTPRequest"},
        "destination": {"type": "null"},
        "source": {"$ref": "#/components/schemas/Source"},
        "retry": {"properties": {"resume_without_validator": {"const": false}}},
        "segments": {"const": 1}, "mirrors": {"maxItems": 0}, "resume_data": {"type": "null"}
      },
      "unevaluatedProperties": false
    },
    "DataRequest": {
      "description": "Makes a request and keeps the answer's body. Succeeds on any answer unless \#
    accept.status says otherwise.",
      "allOf": [{"$ref": "#/components/schemas/JobCommon"}],
      "type": "object", "required": ["kind", "request"],
      "properties": {
        "kind": {"const": "data"},
        "request": {"$ref": "#/components/schemas/DataHTTPRequest"},
        "destination": {"type": "null"}, "source": {"type": "null"},
        "retry": {"properties": {"resume_without_validator": {"const": false}}},
        "segments": {"const": 1}, "mirrors": {"maxItems": 0}, "resume_data": {"type": "null"}
      },
      "unevaluatedProperties": false
    },
    "HTTPRequestCommon": {
      "type": "object",
      "properties": {
        "url": {"$ref": "#/components/schemas/URL"},
        "headers": {
          "type": "object", "maxProperties": 100,
          "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"},
          "additionalProperties": {
            "type": "string",
            "pattern": "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$"
          },
          "description": "Not: Host, Content-Length, Transfer-Encoding, Connection, Expect, TE, \#
    Upgrade, Trailer, Keep-Alive, Proxy-*. Values of Authorization, Cookie, X-Api-Key, X-Auth-Token and \#
    of names that contain token, secret, password or api-key are encrypted and shown as {\"set\": \#
    true}. Of others, clients and admins see the values, and viewers, events and webhooks those of fields \#
    that carry no credential. At most 16 KiB."
        },
        "cache_policy": {"const": "use_protocol_cache_policy"},
        "timeout_for_request": {
          "type": "number", "minimum": 1, "maximum": 604800, "default": 60,
          "description": "Seconds without a byte after which an attempt fails."
        },
        "accept_encoding": {
          "enum": ["identity", "gzip", "br", "any"], "default": "identity",
          "description": "Content codings to ask for; any: gzip, deflate and br. The body is decoded, and \#
    stored, counted and hashed so, if the answer's Content-Encoding is one coding that was asked for; \#
    otherwise it is stored as it was sent. Only identity for uploads."
        },
        "http_version": {
          "enum": ["auto", "1.1", "2", "3"], "default": "auto",
          "description": "A wish: what both ends can do is used, the newest first. Before libcurl 8.2.1 \#
    only HTTP/1.1 is safe. 3 needs https, no proxy, and a libcurl with HTTP/3; 422 otherwise."
        },
        "proxy": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/ProxyRequest"}]},
        "auth": {
          "description": "Not together with an Authorization header.",
          "oneOf": [
            {"type": "null"},
            {"$ref": "#/components/schemas/PasswordAuthentication"},
            {"$ref": "#/components/schemas/TokenAuthentication"}
          ]
        },
        "tls": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TLSRequest"}]}
      }
    },
    "DownloadHTTPRequest": {
      "allOf": [{"$ref": "#/components/schemas/HTTPRequestCommon"}],
      "type": "object", "required": ["url"],
      "properties": {
        "method": {
          "type": "string",
          "pattern": "^(?!(HEAD|TRACE|CONNECT)$)[A-Z][A-Z0-9_-]{0,31}$",
          "default": "GET"
        },
        "body": {"type": "null"}
      },
      "unevaluatedProperties": false
    },
    "UploadHTTPRequest": {
      "allOf": [{"$ref": "#/components/schemas/HTTPRequestCommon"}],
      "type": "object", "required": ["url"],
      "properties": {
        "method": {
          "type": "string", "default": "PUT",
          "pattern": "^(?!(GET|HEAD|DELETE|OPTIONS|TRACE|CONNECT)$)[A-Z][A-Z0-9_-]{0,31}$"
        },
        "accept_encoding": {"const": "identity"},
        "body": {"type": "null"}
      },
      "unevaluatedProperties": false
    },
    "DataHTTPRequest": {
      "description": "With a body, the method must be named and be neither GET nor HEAD.",
      "allOf": [{"$ref": "#/components/schemas/HTTPRequestCommon"}],
      "type": "object", "required": ["url"],
      "if": {"required": ["body"], "properties": {"body": {"type": "object"}}},
      "then": {"required": ["method"], "properties": {"method": {"not": {"enum": ["GET", "HEAD"]}}}},
      "properties": {
        "method": {
          "type": "string",
          "pattern": "^(?!(TRACE|CONNECT)$)[A-Z][A-Z0-9_-]{0,31}$",
          "default": "GET"
        },
        "body": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Body"}]}
      },
      "unevaluatedProperties": false
    },
    "URL": {
      "type": "string", "format": "uri", "maxLength": 8192,
      "pattern": "^[hH][tT][tT][pP][sS]?://[^@\\s/?#]{1,253}([/?#]\\S*)?$",
      "description": "Absolute, http or https, without user information. Addresses that the egress \#
    policy refuses are a 422."
    },
    "Integrity": {
      "type": "object", "additionalProperties": false,
      "description": "What the bytes must be; each that is given is checked. What the server announces \#
    (Repr-Digest and others, see docs/integrity.md) is checked besides.",
      "properties": {
        "size": {"type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991},
        "md5": {"type": ["string", "null"], "pattern": "^[0-9A-Fa-f]{32}$"},
        "sha1": {"type": ["string", "null"], "pattern": "^[0-9A-Fa-f]{40}$"},
        "sha256": {"type": ["string", "null"], "pattern": "^[0-9A-Fa-f]{64}$"},
        "sha512": {"type": ["string", "null"], "pattern": "^[0-9A-Fa-f]{128}$"},
        "crc32c": {"type": ["string", "null"], "pattern": "^[0-9A-Fa-f]{8}$"},
        "adler32": {"type": ["string", "null"], "pattern": "^[0-9A-Fa-f]{8}$"}
      }
    },
    "Redirects": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "policy": {
          "enum": ["follow", "reject", "ask"], "default": "follow",
          "description": "ask: somebody says whether each is followed (POST …/redirect)."
        },
        "max": {"type": "integer", "minimum": 0, "maximum": 50, "default": 20},
        "send_credentials_across_origins": {"type": "boolean", "default": false}
      }
    },
    "Acceptance": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "status": {
          "type": "array", "maxItems": 50, "uniqueItems": true,
          "items": {"type": "string", "pattern": "^[1-5](xx|[0-9][0-9])$"},
          "description": "Left out or empty: 2xx for files, any answer for data; shown as what it means."
        },
        "content_type": {
          "type": "array", "maxItems": 50, "uniqueItems": true,
          "items": {
            "type": "string", "maxLength": 255,
            "pattern": "^(\\*/\\*|[A-Za-z0-9!#$%&'+.^_`|~-]+/(\\*|[A-Za-z0-9!#$%&'+.^_`|~-]+))$"
          }
        },
        "max_bytes": {"type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991}
      }
    },
    "Schedule": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "priority": {
          "type": "number", "minimum": 0, "maximum": 1, "default": 0.5, "description": "Higher first."
        },
        "network_service_type": {
          "enum": ["background", "default", "responsive_data"], "default": "default",
          "description": "What the transfer is for: nobody waits, the usual, a person waits."
        },
        "earliest_begin_at": {"type": ["string", "null"], "format": "date-time"},
        "deadline_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "When the job must have ended, running or not; after earliest_begin_at. Beside \#
    timeout_for_resource: the earlier counts."
        },
        "discretionary": {
          "type": "boolean", "default": false,
          "description": "The service chooses the moment: an off-peak window (GET /v1/admin/windows) or \#
    idle capacity, early enough for the deadline and timeout_for_resource."
        },
        "waits_for_connectivity": {"type": "boolean", "default": true},
        "confirm_before_begin": {
          "type": "boolean", "default": false,
          "description": "Whether somebody has to say first that it may begin (POST …/begin)."
        },
        "expected_bytes_to_send": {
          "type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991
        },
        "expected_bytes_to_receive": {
          "type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991
        },
        "timeout_for_resource": {
          "type": "number", "minimum": 1, "maximum": 31536000, "default": 604800,
          "description": "Seconds from acceptance, all attempts together."
        },
        "depends_on": {
          "type": "array", "maxItems": 100, "uniqueItems": true, "default": [],
          "items": {
            "type": "string",
            "pattern": "^(job_[0-7][0-9A-Ha-hJKMNP-TV-Zjkmnp-tv-z]{25}|#/jobs/[0-9]{1,5})$"
          },
          "description": "Jobs of the same tenant that must have ended before this one begins. In a batch, \#
    #/jobs/3 is the fourth job of the same batch, and must come before this one."
        },
        "on_dependency_failure": {
          "enum": ["fail", "ignore"], "default": "fail",
          "description": "What becomes of this job when one that it depends on does not succeed."
        }
      }
    },
    "Network": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "allow_expensive": {"const": true}, "allow_constrained": {"const": true},
        "max_bytes_per_second": {"type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991}
      }
    },
    "Retry": {
      "type": "object", "additionalProperties": false,
      "description": "max_delay must not be below a given initial_delay.",
      "properties": {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 8},
        "initial_delay": {"type": "number", "minimum": 0, "maximum": 86400, "default": 1},
        "multiplier": {"type": "number", "minimum": 1, "maximum": 10, "default": 2},
        "max_delay": {"type": "number", "minimum": 0, "maximum": 86400, "default": 300},
        "non_idempotent": {
          "type": "boolean", "default": false,
          "description": "Whether a request that is not idempotent is repeated after it may have \#
    reached the server."
        },
        "resume_without_validator": {
          "type": "boolean", "default": false,
          "description": "Downloads only: whether an attempt goes on from the bytes of the last one \#
    although the server has sent neither a strong ETag nor a safe Last-Modified. Only the length then \#
    shows a changed file."
        }
      }
    },
    "WebhookRequest": {
      "type": "object", "required": ["url"], "additionalProperties": false,
      "properties": {
        "url": {"$ref": "#/components/schemas/URL"},
        "events": {
          "type": "array", "minItems": 1, "uniqueItems": true,
          "default": ["job.succeeded", "job.failed", "job.cancelled"],
          "description": "Of a job with acknowledgement the default has job.unacknowledged and \#
    job.acknowledgement_expired as well.",
          "items": {"$ref": "#/components/schemas/EventType"}
        },
        "secret": {
          "type": ["string", "null"],
          "pattern": "^whsec_(([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/]{4}|[A-Za-z0-9+/][AQgw]==|\#
    [A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?|([A-Za-z0-9+/]{4}){21}[A-Za-z0-9+/][AQgw]==)$",
          "description": "whsec_ and the base64 of 24 to 64 bytes. Without one, the service's own \#
    secret signs."
        }
      }
    }
    """#
