extension Operation {
    var hostDescription: OperationDescription {
        switch self {
        case .listHosts:
            OperationDescription(
                tag: "admin", summary: "List hosts that are configured, limited or failing",
                parameters: ["Limit", "HostCursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of hosts, ordered by name.", content: content("HostList"),
                        headers: ["Link"])
                ])
        case .changeHost:
            OperationDescription(
                tag: "admin", summary: "Change the settings of a host, on every node",
                parameters: ["IfMatch"], body: content("HostPatch", as: "application/merge-patch+json"),
                isBodyRequired: true,
                answers: [
                    .init(status: 200, text: "The changed host.", content: content("Host"), headers: ["ETag"])
                ], problems: [409, 412, 413, 415, 422])
        default:
            OperationDescription(
                tag: "admin", summary: "Read a host; an unknown host has default settings",
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
      "type": "object", "description": "State and settings of an origin.",
      "required": [
        "host", "state", "reason", "connection_limit", "request_rate_limit", "in_flight", "backoff_until",
        "unreachable_since", "next_probe_at", "throughput", "minimum_connections", "maximum_connections",
        "paused", "max_bytes_per_second", "max_requests_per_second", "scopes", "decisions"
      ],
      "properties": {
        "host": {"type": "string", "description": "The origin: scheme://host:port."},
        "state": {
          "enum": ["normal", "limited", "backing_off", "unreachable", "recovering", "paused"],
          "description": "State of the whole host."
        },
        "reason": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/HostReason"}],
          "description": "Why the state is not normal, or null if it is."
        },
        "connection_limit": {
          "type": ["integer", "null"],
          "description": "Transfers at once, of all nodes together; null means no limit."
        },
        "request_rate_limit": {
          "type": ["number", "null"],
          "description": "Transfers begun per second, of all nodes together; null means no limit."
        },
        "in_flight": {
          "type": "integer",
          "description": "Transfers that run with the host, of all nodes together."
        },
        "backoff_until": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time before which no job begins, or null."
        },
        "unreachable_since": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time since which the host cannot be reached, or null."
        },
        "next_probe_at": {
          "type": ["string", "null"], "format": "date-time", "description": "Time of the next probe, or null."
        },
        "throughput": {"$ref": "#/components/schemas/HostThroughput"},
        "minimum_connections": {
          "type": ["integer", "null"],
          "description": "Setting: connections that the host always gets, or null if not set."
        },
        "maximum_connections": {
          "type": ["integer", "null"],
          "description": "Setting: connections in use at once, of all nodes together, or null if not set."
        },
        "paused": {"type": "boolean", "description": "Setting: true if no job begins at the host."},
        "max_bytes_per_second": {
          "type": ["integer", "null"],
          "description": "Setting: bytes per second in both directions, of all nodes together, or null if \#
    not set."
        },
        "max_requests_per_second": {
          "type": ["number", "null"],
          "description": "Setting: attempts begun per second, of all nodes together, or null if not set."
        },
        "scopes": {
          "type": "array", "items": {"$ref": "#/components/schemas/HostScope"},
          "description": "Tenants, and paths of tenants, with a limit of their own."
        },
        "decisions": {
          "type": "array", "items": {"$ref": "#/components/schemas/HostDecision"},
          "description": "Latest decisions, newest first: 3 in lists, 50 of one host."
        }
      }
    },
    "HostReason": {
      "type": "object", "description": "Why a host is not in the state normal.",
      "required": ["code", "detail"],
      "properties": {
        "code": {"type": "string", "description": "Stable code of the reason."},
        "detail": {"type": "string", "description": "The reason as a sentence."}
      }
    },
    "HostThroughput": {
      "type": "object",
      "description": "Throughput of a host in its last measurement.",
      "required": ["jobs_per_second", "bytes_per_second"],
      "properties": {
        "jobs_per_second": {
          "type": ["number", "null"],
          "description": "Answered attempts per second, or null if not measured."
        },
        "bytes_per_second": {
          "type": ["number", "null"], "description": "Bytes per second, or null if not measured."
        }
      }
    },
    "HostScope": {
      "type": "object",
      "description": "Limits of the requests of one tenant, or of one path of a tenant.",
      "required": [
        "tenant", "path", "state", "detail", "connection_limit", "request_rate_limit", "backoff_until"
      ],
      "properties": {
        "tenant": {"type": "string", "description": "Tenant whose requests are limited."},
        "path": {
          "type": ["string", "null"],
          "description": "First path segment of the URL, followed by # and a hash of the credentials if \#
    there are some; null means all paths of the tenant."
        },
        "state": {"enum": ["limited", "backing_off"], "description": "State of the scope."},
        "detail": {"type": "string", "description": "Why the scope is limited, as a sentence."},
        "connection_limit": {
          "type": ["integer", "null"],
          "description": "Requests at once, of all nodes together; null means no limit."
        },
        "request_rate_limit": {
          "type": ["number", "null"],
          "description": "Requests begun per second, of all nodes together; null means no limit."
        },
        "backoff_until": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time before which no request of the scope begins, or null."
        }
      }
    },
    "HostDecision": {
      "type": "object",
      "description": "A decision about a host, with the figures that it is based on.",
      "required": [
        "at", "kind", "tenant", "path", "limit_before", "limit_after", "in_flight", "jobs_per_second",
        "bytes_per_second", "throttled", "lost", "sentence"
      ],
      "properties": {
        "at": {"type": "string", "format": "date-time", "description": "Time of the decision."},
        "kind": {
          "enum": [
            "limited", "raised", "reverted", "lowered", "released", "paced", "backed_off", "unreachable",
            "reachable", "configured"
          ],
          "description": "Kind of the decision. limited, raised, reverted, lowered, released: the \#
    connection limit was set, raised, taken back, lowered or removed. paced: only the request rate changed. \#
    backed_off: requests are held. unreachable, reachable: the host was lost or reached again. configured: \#
    an operator changed the settings."
        },
        "tenant": {
          "type": ["string", "null"],
          "description": "Tenant whose requests the decision is about; null means all tenants."
        },
        "path": {
          "type": ["string", "null"],
          "description": "Path whose requests the decision is about; null means all paths."
        },
        "limit_before": {
          "type": ["integer", "null"],
          "description": "Requests at once before the decision; null means no limit."
        },
        "limit_after": {
          "type": ["integer", "null"],
          "description": "Requests at once after the decision; null means no limit."
        },
        "in_flight": {
          "type": ["integer", "null"],
          "description": "Requests of the scope in progress, or null if not known."
        },
        "jobs_per_second": {
          "type": ["number", "null"],
          "description": "Answered attempts per second of the whole host, or null if not measured."
        },
        "bytes_per_second": {
          "type": ["number", "null"],
          "description": "Bytes per second of the whole host, or null if not measured."
        },
        "throttled": {"type": "integer", "description": "Number of attempts that got 429 or 503."},
        "lost": {
          "type": "integer",
          "description": "Number of attempts that got 408, 502, 504 or no complete response."
        },
        "request_rate_before": {
          "type": ["number", "null"],
          "description": "Requests per second before the decision; null means no limit."
        },
        "request_rate_after": {
          "type": ["number", "null"],
          "description": "Requests per second after the decision; null means no limit."
        },
        "sentence": {"type": "string", "description": "The decision as a sentence."}
      }
    },
    "HostList": {
      "type": "object", "description": "A page of hosts.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Host"},
          "description": "The hosts of the page, ordered by name."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "HostPatch": {
      "type": "object", "additionalProperties": false,
      "description": "A merge patch (RFC 7396): absent members stay as they are, null removes a setting.",
      "properties": {
        "minimum_connections": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 1000000,
          "description": "Connections that the host always gets. Not above maximum_connections."
        },
        "maximum_connections": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 1000000,
          "description": "Connections in use at once, of all nodes together. Not below minimum_connections."
        },
        "paused": {
          "type": ["boolean", "null"],
          "description": "true: no job begins at the host. Running transfers continue. null means false."
        },
        "backoff_until": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time before which no job begins. null ends every hold of the host."
        },
        "max_bytes_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Bytes per second in both directions, of all nodes together."
        },
        "max_requests_per_second": {
          "type": ["number", "null"], "minimum": 0.001, "maximum": 1000000,
          "description": "Attempts begun per second, of all nodes together. Connections of parts and to \#
    redirect targets count too."
        }
      }
    }
    """#
