/// Sessions, as JSON Schema 2020-12.
let sessionSchemas = #"""
    "SessionName": {"type": "string", "pattern": "^(?!\\.{1,2}$)[A-Za-z0-9._~:@-]{1,128}$"},
    "SessionRequest": {
      "description": "What the jobs of a session get that say nothing else, and what they share. Jobs keep \#
    what they were accepted with.",
      "type": "object", "additionalProperties": false,
      "properties": {
        "kind": {
          "enum": ["default", "background"], "default": "default",
          "description": "background: uploads send files or what jobs have left, redirects are followed, \#
    and jobs are tried until their resource timeout."
        },
        "description": {"type": ["string", "null"], "maxLength": 1024, "pattern": "^[^\\u0000]*$"},
        "metadata": {
          "type": "object", "maxProperties": 50,
          "propertyNames": {"minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$"},
          "additionalProperties": {"type": "string", "maxLength": 2048, "pattern": "^[^\\u0000]*$"}
        },
        "weight": {
          "type": "number", "minimum": 0.01, "maximum": 1000, "default": 1,
          "description": "The session's share of the capacity, in proportion to others."
        },
        "http_maximum_connections_per_host": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 10000, "default": 6,
          "description": "Of all nodes together; null: no limit."
        },
        "max_bytes_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Of its transfers on all nodes together, both directions; a change holds at once."
        },
        "retention": {
          "type": ["number", "null"], "minimum": 1, "maximum": 315360000,
          "description": "Seconds for which finished jobs and the files kept for them stay; at most the \#
    service's, which is the default."
        },
        "acknowledgement": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/AcknowledgementRules"}]
        },
        "sends_launch_events": {
          "type": "boolean", "default": true,
          "description": "Whether webhook endpoints hear of its jobs. A job's own webhook always does."
        },
        "timeout_for_request": {
          "type": "number", "minimum": 1, "maximum": 604800, "default": 60, "description": "Seconds."
        },
        "timeout_for_resource": {
          "type": "number", "minimum": 1, "maximum": 31536000, "default": 604800, "description": "Seconds."
        },
        "priority": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
        "network_service_type": {"enum": ["background", "default", "responsive_data"], "default": "default"},
        "discretionary": {"type": "boolean", "default": false},
        "waits_for_connectivity": {"type": "boolean", "default": true},
        "http_additional_headers": {
          "type": "object", "maxProperties": 100,
          "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"},
          "additionalProperties": {
            "type": "string",
            "pattern": "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$"
          },
          "description": "Sent unless the job's request names the field itself. Not those that a job may \#
    not set, nor Content-Type, Content-Encoding, Range and the conditions of a request."
        },
        "http_additional_headers_origins": {
          "type": ["array", "null"], "maxItems": 100, "uniqueItems": true,
          "items": {
            "type": "string", "maxLength": 8192,
            "pattern": "^[hH][tT][tT][pP][sS]?://[^@\\s/?#\\\\]{1,255}$"
          },
          "description": "The only origins that get http_additional_headers: scheme://host[:port]. The \#
    first label of a name may be an asterisk (https://*.example.org: any names below example.org). null: \#
    all origins, also those that a client names in a job."
        },
        "proxy": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/ProxyRequest"}]},
        "tls_minimum_version": {"enum": ["1.2", "1.3"], "default": "1.2"},
        "tls_maximum_version": {"enum": ["1.2", "1.3", null]}
      },
      "not": {
        "required": ["tls_minimum_version", "tls_maximum_version"],
        "properties": {"tls_minimum_version": {"const": "1.3"}, "tls_maximum_version": {"const": "1.2"}}
      },
      "examples": [
        {"weight": 2, "http_additional_headers": {"User-Agent": "reports/1"}},
        {
          "http_additional_headers": {"Authorization": "Bearer shop-token"},
          "http_additional_headers_origins": ["https://shop.example", "https://*.shop.example:8443"]
        }
      ]
    },
    "Session": {
      "type": "object",
      "description": "Every member is present. The ETag is of the configuration and not of jobs.",
      "required": [
        "identifier", "tenant", "is_configured", "revision", "created_at", "updated_at", "invalidation",
        "invalidated_at", "ended_at", "kind", "description", "metadata", "weight",
        "http_maximum_connections_per_host", "max_bytes_per_second", "retention", "acknowledgement",
        "sends_launch_events", "timeout_for_request", "timeout_for_resource", "priority",
        "network_service_type", "discretionary", "waits_for_connectivity",
        "http_additional_headers", "http_additional_headers_origins", "proxy", "tls_minimum_version",
        "tls_maximum_version", "jobs"
      ],
      "properties": {
        "identifier": {"type": "string"}, "tenant": {"type": "string"},
        "is_configured": {
          "type": "boolean", "description": "False: jobs have named it, and it has the standard values."
        },
        "revision": {"type": "integer", "minimum": 0},
        "created_at": {"type": ["string", "null"], "format": "date-time"},
        "updated_at": {"type": ["string", "null"], "format": "date-time"},
        "invalidation": {
          "enum": [null, "finish", "cancel"], "description": "Not null: it takes no more jobs."
        },
        "invalidated_at": {"type": ["string", "null"], "format": "date-time"},
        "ended_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "When the last job of an invalidated session was over."
        },
        "kind": {"enum": ["default", "background"]},
        "description": {"type": ["string", "null"]},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "weight": {"type": "number"},
        "http_maximum_connections_per_host": {"type": ["integer", "null"]},
        "max_bytes_per_second": {"type": ["integer", "null"]},
        "retention": {"type": ["number", "null"]},
        "acknowledgement": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/AcknowledgementRules"}]
        },
        "sends_launch_events": {"type": "boolean"},
        "timeout_for_request": {"type": "number"}, "timeout_for_resource": {"type": "number"},
        "priority": {"type": "number"}, "network_service_type": {"type": "string"},
        "discretionary": {"type": "boolean"}, "waits_for_connectivity": {"type": "boolean"},
        "http_additional_headers": {"type": "object"},
        "http_additional_headers_origins": {"type": ["array", "null"], "items": {"type": "string"}},
        "proxy": {"type": ["object", "null"]},
        "tls_minimum_version": {"type": "string"}, "tls_maximum_version": {"type": ["string", "null"]},
        "jobs": {
          "type": ["object", "null"],
          "description": "Unfinished ones by state; null in lists.",
          "required": ["waiting", "queued", "running", "suspended", "is_exact"],
          "properties": {
            "waiting": {"type": "integer"}, "queued": {"type": "integer"}, "running": {"type": "integer"},
            "suspended": {"type": "integer"},
            "is_exact": {
              "type": "boolean", "description": "False: there are more than 100,000, and these were counted."
            }
          }
        }
      }
    },
    "InvalidationRequest": {
      "type": "object", "required": ["mode"], "additionalProperties": false,
      "properties": {
        "mode": {
          "enum": ["finish", "cancel"], "description": "What becomes of the jobs that it has; cancel wins."
        }
      }
    },
    "SessionList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Session"}},
        "next_cursor": {"type": ["string", "null"]}
      }
    }
    """#
