/// Sessions, as JSON Schema 2020-12.
let sessionSchemas = #"""
    "SessionName": {"type": "string", "pattern": "^(?!\\.{1,2}$)[A-Za-z0-9._~:@-]{1,128}$"},
    "SessionJobs": {
      "type": "object", "description": "Numbers of unfinished jobs.",
      "required": ["waiting", "queued", "running", "suspended", "is_exact"],
      "properties": {
        "waiting": {"type": "integer", "description": "Waiting jobs."},
        "queued": {"type": "integer", "description": "Queued jobs."},
        "running": {"type": "integer", "description": "Running jobs."},
        "suspended": {"type": "integer", "description": "Suspended jobs."},
        "is_exact": {
          "type": "boolean", "description": "false: there are more than 100,000, and these were counted."
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
