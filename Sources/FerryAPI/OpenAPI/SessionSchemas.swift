/// Sessions, as JSON Schema 2020-12.
let sessionSchemas = #"""
    "SessionName": {
      "type": "string", "description": "Name of a session.",
      "pattern": "^(?!\\.{1,2}$)[A-Za-z0-9._~:@-]{1,128}$"
    },
    "SessionJobs": {
      "type": "object", "description": "Numbers of unfinished jobs of a session.",
      "required": ["waiting", "queued", "running", "suspended", "is_exact"],
      "properties": {
        "waiting": {"type": "integer", "description": "Number of waiting jobs."},
        "queued": {"type": "integer", "description": "Number of queued jobs."},
        "running": {"type": "integer", "description": "Number of running jobs."},
        "suspended": {"type": "integer", "description": "Number of suspended jobs."},
        "is_exact": {
          "type": "boolean",
          "description": "false if the session has more than 100,000 unfinished jobs, of which 100,000 are \#
    counted."
        }
      }
    },
    "InvalidationRequest": {
      "type": "object", "description": "How to invalidate a session.", "required": ["mode"],
      "additionalProperties": false,
      "properties": {
        "mode": {
          "enum": ["finish", "cancel"],
          "description": "finish: unfinished jobs continue. cancel: unfinished jobs are cancelled. After \#
    both, cancel applies."
        }
      }
    },
    "SessionList": {
      "type": "object", "description": "A page of sessions.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Session"},
          "description": "The sessions of the page, ordered by name."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    }
    """#
