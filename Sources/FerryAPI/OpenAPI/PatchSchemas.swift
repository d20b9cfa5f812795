/// What a client may change about a job, as JSON Schema 2020-12.
let patchSchemas = #"""
    "JobPatch": {
      "type": "object", "additionalProperties": false,
      "description": "A merge patch (RFC 7396) of the job as it is shown; null stands for the default. \#
    description, metadata, schedule.priority and network.max_bytes_per_second can be changed until the job \#
    is terminal, the rest until it has begun. What comes out is checked like a submission.",
      "examples": [{"metadata": {"ticket": "17"}, "network": {"max_bytes_per_second": null}}],
      "properties": {
        "description": {"type": ["string", "null"], "maxLength": 1024, "pattern": "^[^\\u0000]*$"},
        "metadata": {
          "type": ["object", "null"], "maxProperties": 50,
          "additionalProperties": {"type": ["string", "null"], "maxLength": 2048}
        },
        "request": {
          "type": "object", "additionalProperties": false,
          "properties": {
            "url": {"type": "string", "maxLength": 8192},
            "timeout_for_request": {"type": ["number", "null"], "minimum": 1, "maximum": 604800}
          }
        },
        "destination": {"type": ["object", "null"]}, "integrity": {"type": ["object", "null"]},
        "redirects": {"type": ["object", "null"]}, "accept": {"type": ["object", "null"]},
        "schedule": {"type": ["object", "null"]}, "network": {"type": ["object", "null"]},
        "retry": {"type": ["object", "null"]}
      }
    }
    """#
