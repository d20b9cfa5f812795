extension Operation {
    /// Descriptions of the commands of operators and of the audit log.
    var operatorDescription: OperationDescription {
        switch self {
        case .pauseService, .resumeService:
            OperationDescription(
                tag: "admin",
                summary: self == .pauseService
                    ? "Begin nothing new on any node; what runs goes on" : "Begin jobs again",
                body: json("EmptyRequest"),
                answers: [.init(status: 200, text: "It is so.", content: json("Pause"))],
                problems: [413, 415, 422])
        case .drainNode, .resumeNode:
            OperationDescription(
                tag: "admin",
                summary: self == .drainNode
                    ? "Begin nothing new on a node, until it is resumed or restarted"
                    : "Begin jobs on a node again",
                body: json("EmptyRequest"),
                answers: [.init(status: 200, text: "The node.", content: json("Node"))],
                problems: [404, 413, 415, 422])
        case .listTenants:
            OperationDescription(
                tag: "admin", summary: "Count the unfinished jobs of each tenant, by name",
                parameters: ["Limit", "TenantCursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of those that have some, as of at most two seconds ago.",
                        content: json("TenantList"), headers: ["Link"])
                ])
        default:
            OperationDescription(
                tag: "admin", summary: "List what operators have changed, newest first",
                parameters: ["Limit", "Cursor"],
                answers: [
                    .init(status: 200, text: "A page of requests.", content: json("Audit"), headers: ["Link"])
                ])
        }
    }
}

let operatorSchemas = #"""
    "Pause": {
      "type": "object", "required": ["paused"],
      "properties": {"paused": {"type": "boolean"}}
    },
    "Node": {
      "type": "object",
      "required": [
        "id", "name", "version", "started_at", "heartbeat_age_seconds", "running", "draining", "worker"
      ],
      "properties": {
        "id": {"type": "string"}, "name": {"type": "string"}, "version": {"type": "string"},
        "started_at": {"type": "string", "format": "date-time"},
        "heartbeat_age_seconds": {"type": "number"},
        "running": {"type": "integer"},
        "draining": {"type": "boolean", "description": "It begins nothing new."},
        "worker": {"type": "boolean", "description": "Whether it transfers at all."}
      }
    },
    "NodeList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "next_cursor": {"type": ["string", "null"]},
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
      }
    },
    "TenantList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "next_cursor": {"type": ["string", "null"]},
        "data": {
          "type": "array",
          "items": {
            "type": "object", "required": ["tenant", "waiting", "queued", "running", "suspended"],
            "properties": {
              "tenant": {"type": "string"},
              "waiting": {"type": "integer"}, "queued": {"type": "integer"},
              "running": {"type": "integer"}, "suspended": {"type": "integer"}
            }
          }
        }
      }
    },
    "Audit": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "next_cursor": {"type": ["string", "null"]},
        "data": {
          "type": "array",
          "items": {
            "type": "object",
            "required": [
              "id", "requested_at", "key", "key_name", "operation", "path", "request_id", "status", "body"
            ],
            "properties": {
              "id": {"type": "string"},
              "requested_at": {"type": "string", "format": "date-time"},
              "key": {
                "type": ["string", "null"],
                "description": "Whose request it was; null only in entries of older versions."
              },
              "key_name": {
                "type": ["string", "null"],
                "description": "What that key is called; FERRY_ADMIN_KEY: the key of the configuration."
              },
              "operation": {"type": "string", "description": "An operationId of this document."},
              "path": {"type": "string"}, "request_id": {"type": "string"},
              "status": {
                "type": ["integer", "null"],
                "description": "Of the answer; null: it is not known what became of the request."
              },
              "body": {"description": "Of a request that was carried out; null when it had none."}
            }
          }
        }
      }
    }
    """#
