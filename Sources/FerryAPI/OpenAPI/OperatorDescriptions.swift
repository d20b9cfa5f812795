extension Operation {
    /// Descriptions of the commands of operators and of the audit log.
    var operatorDescription: OperationDescription {
        switch self {
        case .pauseService, .resumeService:
            OperationDescription(
                tag: "admin",
                summary: self == .pauseService
                    ? "Pause the service: no node begins jobs, running jobs continue"
                    : "Resume the service",
                body: json("EmptyRequest"),
                answers: [.init(status: 200, text: "The new state.", content: json("Pause"))],
                problems: [413, 415, 422])
        case .drainNode, .resumeNode:
            OperationDescription(
                tag: "admin",
                summary: self == .drainNode
                    ? "Drain a node: it begins no jobs until it is resumed or restarted"
                    : "Resume a node that drains",
                body: json("EmptyRequest"),
                answers: [.init(status: 200, text: "The node.", content: json("Node"))],
                problems: [404, 413, 415, 422])
        case .listTenants:
            OperationDescription(
                tag: "admin", summary: "List the tenants with their unfinished jobs, by name",
                parameters: ["Limit", "TenantCursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of tenants with unfinished jobs, at most 2 seconds old.",
                        content: json("TenantList"), headers: ["Link"])
                ])
        default:
            OperationDescription(
                tag: "admin", summary: "List the audit log: changes by operators, newest first",
                parameters: ["Limit", "Cursor"],
                answers: [
                    .init(status: 200, text: "A page of entries.", content: json("Audit"), headers: ["Link"])
                ])
        }
    }
}

let operatorSchemas = #"""
    "Pause": {
      "type": "object", "description": "Whether the service is paused.", "required": ["paused"],
      "properties": {"paused": {"type": "boolean", "description": "true if no node begins jobs."}}
    },
    "Status": {
      "type": "object",
      "description": "State of the service. The numbers of unfinished jobs are exact.",
      "required": [
        "version", "uptime_seconds", "paused", "nodes", "jobs", "oldest_queued_seconds", "throughput",
        "database", "storage", "webhooks"
      ],
      "properties": {
        "version": {"type": "string", "description": "Version of Ferry on the node that responds."},
        "uptime_seconds": {
          "type": "number",
          "description": "Seconds since the start of the node that responds."
        },
        "paused": {
          "type": "boolean",
          "description": "true if an operator has paused the service: no node begins jobs."
        },
        "nodes": {
          "type": "array", "items": {"$ref": "#/components/schemas/StatusNode"},
          "description": "The nodes of the cluster."
        },
        "jobs": {"$ref": "#/components/schemas/StatusJobs"},
        "oldest_queued_seconds": {
          "type": ["number", "null"],
          "description": "Age of the oldest queued job in seconds, since its acceptance or since it last \#
    became queued; null if none is queued. Only the first job of each queue counts. A request reads 200 \#
    queues; the next request to the same node reads the next 200."
        },
        "throughput": {"$ref": "#/components/schemas/StatusThroughput"},
        "database": {"$ref": "#/components/schemas/StatusDatabase"},
        "storage": {"$ref": "#/components/schemas/StatusStorage"},
        "webhooks": {"$ref": "#/components/schemas/StatusWebhooks"}
      }
    },
    "StatusNode": {
      "type": "object", "description": "A node of the cluster, in the status.",
      "required": ["id", "heartbeat_age_seconds", "running", "draining"],
      "properties": {
        "id": {"type": "string", "description": "Identifier of the node."},
        "heartbeat_age_seconds": {
          "type": "number", "description": "Seconds since the node's last heartbeat."
        },
        "running": {"type": "integer", "description": "Number of attempts that run on the node."},
        "draining": {"type": "boolean", "description": "true if the node begins no jobs."}
      }
    },
    "StatusJobs": {
      "type": "object",
      "description": "Numbers of unfinished jobs. A job counts until its terminal state is committed.",
      "required": ["waiting", "queued", "running", "suspended"],
      "properties": {
        "waiting": {"type": "integer", "description": "Number of waiting jobs."},
        "queued": {"type": "integer", "description": "Number of queued jobs."},
        "running": {"type": "integer", "description": "Number of running jobs."},
        "suspended": {"type": "integer", "description": "Number of suspended jobs."}
      }
    },
    "StatusThroughput": {
      "type": "object", "description": "Throughput of the node that responds.",
      "required": ["bytes_received_per_second", "bytes_sent_per_second", "jobs_finished_per_second"],
      "properties": {
        "bytes_received_per_second": {
          "type": "number", "description": "Bytes that the node receives per second."
        },
        "bytes_sent_per_second": {"type": "number", "description": "Bytes that the node sends per second."},
        "jobs_finished_per_second": {
          "type": "number", "description": "Jobs that the node finishes per second."
        }
      }
    },
    "StatusDatabase": {
      "type": "object",
      "description": "Connection of the responding node to the database.",
      "required": ["ok", "round_trip_seconds"],
      "properties": {
        "ok": {"type": "boolean", "description": "true if the node reaches the database."},
        "round_trip_seconds": {
          "type": ["number", "null"],
          "description": "Duration of the last heartbeat in seconds, or null before the first."
        }
      }
    },
    "StatusStorage": {
      "type": "object", "description": "Storage of the node that responds.",
      "required": ["free_bytes", "holds_downloads"],
      "properties": {
        "free_bytes": {
          "type": ["integer", "null"],
          "description": "Free bytes of the node's disk with the least space for files, or null if not known."
        },
        "holds_downloads": {
          "type": "boolean",
          "description": "true if the node begins no downloads because its disk is nearly full or not \#
    writable."
        }
      }
    },
    "StatusWebhooks": {
      "type": "object",
      "description": "Deliveries that are neither accepted nor given up.",
      "required": ["pending", "oldest_pending_seconds"],
      "properties": {
        "pending": {"type": "integer", "description": "Number of pending deliveries."},
        "oldest_pending_seconds": {
          "type": ["number", "null"],
          "description": "Age of the oldest pending delivery in seconds, or null if none is pending."
        }
      }
    },
    "Node": {
      "type": "object", "description": "A node of the cluster.",
      "required": [
        "id", "name", "version", "started_at", "heartbeat_age_seconds", "running", "draining", "worker"
      ],
      "properties": {
        "id": {"type": "string", "description": "Identifier of the node."},
        "name": {"type": "string", "description": "Name of the node."},
        "version": {"type": "string", "description": "Version of Ferry on the node."},
        "started_at": {"type": "string", "format": "date-time", "description": "Time of the node's start."},
        "heartbeat_age_seconds": {
          "type": "number", "description": "Seconds since the node's last heartbeat."
        },
        "running": {"type": "integer", "description": "Number of attempts that run on the node."},
        "draining": {"type": "boolean", "description": "true if the node begins no jobs."},
        "worker": {"type": "boolean", "description": "true if the node runs transfers."}
      }
    },
    "NodeList": {
      "type": "object", "description": "A page of nodes.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Node"},
          "description": "The nodes of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "TenantList": {
      "type": "object", "description": "A page of tenants.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/TenantJobs"},
          "description": "The tenants of the page, ordered by name."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "TenantJobs": {
      "type": "object", "description": "Numbers of unfinished jobs of a tenant.",
      "required": ["tenant", "waiting", "queued", "running", "suspended"],
      "properties": {
        "tenant": {"type": "string", "description": "Name of the tenant."},
        "waiting": {"type": "integer", "description": "Number of waiting jobs of the tenant."},
        "queued": {"type": "integer", "description": "Number of queued jobs of the tenant."},
        "running": {"type": "integer", "description": "Number of running jobs of the tenant."},
        "suspended": {"type": "integer", "description": "Number of suspended jobs of the tenant."}
      }
    },
    "Audit": {
      "type": "object", "description": "A page of entries of the audit log.",
      "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/AuditEntry"},
          "description": "The entries of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "AuditEntry": {
      "type": "object",
      "description": "A request by which an operator changed something.",
      "required": [
        "id", "requested_at", "key", "key_name", "operation", "path", "request_id", "status", "body"
      ],
      "properties": {
        "id": {"type": "string", "description": "Identifier of the entry."},
        "requested_at": {"type": "string", "format": "date-time", "description": "Time of the request."},
        "key": {
          "type": ["string", "null"],
          "description": "Identifier of the key that made the request. Null only in entries of older \#
    versions."
        },
        "key_name": {
          "type": ["string", "null"],
          "description": "Name of that key. FERRY_ADMIN_KEY is the key of the configuration."
        },
        "operation": {"type": "string", "description": "The operationId of the request in this document."},
        "path": {"type": "string", "description": "Path of the request."},
        "request_id": {
          "type": "string",
          "description": "Identifier of the request, as in X-Request-Id and the log."
        },
        "status": {
          "type": ["integer", "null"],
          "description": "HTTP status code of the response, or null if the result of the request is not \#
    known."
        },
        "body": {
          "description": "JSON body of the request. Null if the request had none or was not carried out."
        }
      }
    }
    """#
