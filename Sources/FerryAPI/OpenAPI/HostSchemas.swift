extension Operation {
    var hostDescription: OperationDescription {
        switch self {
        case .listHosts:
            OperationDescription(
                tag: "admin", summary: "List the hosts of which something is known",
                parameters: ["Limit", "HostCursor"],
                answers: [
                    .init(
                        status: 200, text: "A page, in order of their names.", content: content("HostList"),
                        headers: ["Link"])
                ])
        case .changeHost:
            OperationDescription(
                tag: "admin", summary: "Change what holds for a host, on every node",
                parameters: ["IfMatch"], body: content("HostPatch", as: "application/merge-patch+json"),
                isBodyRequired: true,
                answers: [
                    .init(status: 200, text: "It holds.", content: content("Host"), headers: ["ETag"])
                ], problems: [409, 412, 413, 415, 422])
        default:
            OperationDescription(
                tag: "admin", summary: "How a host does; one that nobody knows is as it is by itself",
                parameters: ["IfNoneMatch"],
                answers: [
                    .init(status: 200, text: "The host.", content: content("Host"), headers: ["ETag"]),
                    .unchanged,
                ])
        }
    }

    private func content(_ schema: String, as type: String = "application/json") -> String {
        ##"{"\##(type)": {"schema": {"$ref": "#/components/schemas/\##(schema)"}}}"##
    }
}

/// Hosts and their settings, as JSON Schema 2020-12.
let hostSchemas = #"""
    "Host": {
      "type": "object",
      "required": [
        "host", "state", "reason", "connection_limit", "request_rate_limit", "in_flight", "backoff_until",
        "unreachable_since", "next_probe_at", "throughput", "minimum_connections", "maximum_connections",
        "paused", "max_bytes_per_second", "max_requests_per_second", "scopes", "decisions"
      ],
      "properties": {
        "host": {"type": "string", "description": "scheme://host:port"},
        "state": {
          "enum": ["normal", "limited", "backing_off", "unreachable", "recovering", "paused"]
        },
        "reason": {
          "type": ["object", "null"], "required": ["code", "detail"],
          "properties": {"code": {"type": "string"}, "detail": {"type": "string"}}
        },
        "connection_limit": {
          "type": ["integer", "null"],
          "description": "Transfers at once, of all nodes together; null is no limit."
        },
        "request_rate_limit": {
          "type": ["number", "null"],
          "description": "Transfers begun a second, of all nodes together; null is no limit."
        },
        "in_flight": {"type": "integer"},
        "backoff_until": {"type": ["string", "null"], "format": "date-time"},
        "unreachable_since": {"type": ["string", "null"], "format": "date-time"},
        "next_probe_at": {"type": ["string", "null"], "format": "date-time"},
        "throughput": {
          "type": "object", "required": ["jobs_per_second", "bytes_per_second"],
          "description": "Of the last window that was measured; null: none was.",
          "properties": {
            "jobs_per_second": {"type": ["number", "null"]}, "bytes_per_second": {"type": ["number", "null"]}
          }
        },
        "minimum_connections": {"type": ["integer", "null"]},
        "maximum_connections": {"type": ["integer", "null"]},
        "paused": {"type": "boolean"},
        "max_bytes_per_second": {"type": ["integer", "null"]},
        "max_requests_per_second": {"type": ["number", "null"]},
        "scopes": {
          "type": "array", "items": {"$ref": "#/components/schemas/HostScope"},
          "description": "Tenants, and paths of tenants, whose requests are limited by themselves."
        },
        "decisions": {
          "type": "array", "items": {"$ref": "#/components/schemas/HostDecision"},
          "description": "The newest first: 3 in lists, 50 of one host."
        }
      }
    },
    "HostScope": {
      "type": "object",
      "required": [
        "tenant", "path", "state", "detail", "connection_limit", "request_rate_limit", "backoff_until"
      ],
      "properties": {
        "tenant": {"type": "string"},
        "path": {
          "type": ["string", "null"],
          "description": "First path segment, and after # a hash of the credentials; null is every path."
        },
        "state": {"enum": ["limited", "backing_off"]},
        "detail": {"type": "string", "description": "Why, in one sentence."},
        "connection_limit": {
          "type": ["integer", "null"],
          "description": "Requests at once, of all nodes together; null is no limit."
        },
        "request_rate_limit": {
          "type": ["number", "null"],
          "description": "Requests begun per second, of all nodes together; null is no limit."
        },
        "backoff_until": {"type": ["string", "null"], "format": "date-time"}
      }
    },
    "HostDecision": {
      "type": "object",
      "required": [
        "at", "kind", "tenant", "path", "limit_before", "limit_after", "in_flight", "jobs_per_second",
        "bytes_per_second",
        "throttled", "lost", "sentence"
      ],
      "properties": {
        "at": {"type": "string", "format": "date-time"},
        "kind": {
          "enum": [
            "limited", "raised", "reverted", "lowered", "released", "paced", "backed_off", "unreachable",
            "reachable", "configured"
          ]
        },
        "tenant": {"type": ["string", "null"], "description": "Whose requests; null is every tenant's."},
        "path": {"type": ["string", "null"], "description": "Requests to this path; null is every path."},
        "limit_before": {"type": ["integer", "null"]}, "limit_after": {"type": ["integer", "null"]},
        "in_flight": {"type": ["integer", "null"]},
        "jobs_per_second": {"type": ["number", "null"]}, "bytes_per_second": {"type": ["number", "null"]},
        "throttled": {"type": "integer"}, "lost": {"type": "integer"},
        "request_rate_before": {
          "type": ["number", "null"], "description": "Requests per second; null is no limit."
        },
        "request_rate_after": {"type": ["number", "null"]},
        "sentence": {"type": "string"}
      }
    },
    "HostList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Host"}},
        "next_cursor": {"type": ["string", "null"]}
      }
    },
    "HostPatch": {
      "type": "object", "additionalProperties": false,
      "description": "A merge patch (RFC 7396): what is absent stays, null takes a value away.",
      "properties": {
        "minimum_connections": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000000},
        "maximum_connections": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 1000000,
          "description": "Of all nodes together. Not below minimum_connections."
        },
        "paused": {"type": ["boolean", "null"]},
        "backoff_until": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Nothing begins before; null: now."
        },
        "max_bytes_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Of all nodes together, both directions; where there are jobs."
        },
        "max_requests_per_second": {
          "type": ["number", "null"], "minimum": 0.001, "maximum": 1000000,
          "description": "Transfers begun a second, of all nodes together; further connections count as well."
        }
      }
    }
    """#
