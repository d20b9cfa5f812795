/// Merge patches of jobs, as JSON Schema 2020-12.
let patchSchemas = #"""
    "JobPatch": {
      "type": "object", "additionalProperties": false,
      "description": "A merge patch (RFC 7396) of the job as it is shown; null stands for the default. \#
    description, metadata, schedule.priority and network.max_bytes_per_second can be changed until the job \#
    is terminal, the rest while it does not run; earliest_begin_at and confirm_before_begin until it has \#
    begun. A download goes on from its bytes with another URL when the validator says that it is the same \#
    file. What comes out is checked like a submission.",
      "examples": [{"metadata": {"ticket": "17"}, "network": {"max_bytes_per_second": null}}],
      "properties": {
        "description": {"type": ["string", "null"], "maxLength": 1024, "pattern": "^[^\\u0000]*$"},
        "metadata": {
          "type": ["object", "null"], "maxProperties": 50,
          "propertyNames": {"minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$"},
          "additionalProperties": {"type": ["string", "null"], "maxLength": 2048, "pattern": "^[^\\u0000]*$"}
        },
        "request": {"$ref": "#/components/schemas/NewRequest"},
        "destination": {
          "type": ["object", "null"], "additionalProperties": false,
          "properties": {
            "path": {"$ref": "#/components/schemas/DestinationPath"},
            "if_exists": {"enum": [null, "replace", "fail", "rename"]}
          }
        },
        "integrity": {"$ref": "#/components/schemas/IntegrityPatch"},
        "redirects": {
          "type": ["object", "null"], "additionalProperties": false,
          "properties": {
            "policy": {"enum": [null, "follow", "reject", "ask"]},
            "max": {"type": ["integer", "null"], "minimum": 0, "maximum": 50},
            "send_credentials_across_origins": {"type": ["boolean", "null"]}
          }
        },
        "accept": {
          "type": ["object", "null"], "additionalProperties": false,
          "properties": {
            "status": {
              "type": ["array", "null"], "maxItems": 50, "uniqueItems": true,
              "items": {"type": "string", "pattern": "^[1-5](xx|[0-9][0-9])$"}
            },
            "content_type": {
              "type": ["array", "null"], "maxItems": 50, "uniqueItems": true,
              "items": {
                "type": "string", "maxLength": 255,
                "pattern": "^(\\*/\\*|[A-Za-z0-9!#$%&'+.^_`|~-]+/(\\*|[A-Za-z0-9!#$%&'+.^_`|~-]+))$"
              }
            },
            "max_bytes": {"type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991}
          }
        },
        "on_challenge": {"enum": [null, "fail", "ask"]},
        "questions": {
          "type": ["object", "null"], "additionalProperties": false,
          "properties": {
            "timeout": {"type": ["number", "null"], "minimum": 1, "maximum": 604800},
            "begin": {"enum": [null, "continue_loading", "cancel"]},
            "redirect": {"enum": [null, "follow", "reject", "cancel"]},
            "challenge": {"enum": [null, "perform_default_handling", "cancel"]}
          }
        },
        "schedule": {"$ref": "#/components/schemas/SchedulePatch"},
        "network": {
          "type": ["object", "null"], "additionalProperties": false,
          "properties": {
            "allow_expensive": {"enum": [null, true]}, "allow_constrained": {"enum": [null, true]},
            "max_bytes_per_second": {
              "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991
            }
          }
        },
        "retry": {
          "type": ["object", "null"], "additionalProperties": false,
          "properties": {
            "max_attempts": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000000},
            "initial_delay": {"type": ["number", "null"], "minimum": 0, "maximum": 86400},
            "multiplier": {"type": ["number", "null"], "minimum": 1, "maximum": 10},
            "max_delay": {"type": ["number", "null"], "minimum": 0, "maximum": 86400},
            "non_idempotent": {"type": ["boolean", "null"]},
            "resume_without_validator": {"type": ["boolean", "null"]}
          }
        }
      }
    },
    "IntegrityPatch": {
      "type": ["object", "null"], "additionalProperties": false,
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
    "SchedulePatch": {
      "type": ["object", "null"], "additionalProperties": false,
      "description": "depends_on cannot be changed.",
      "properties": {
        "priority": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "network_service_type": {"enum": [null, "background", "default", "responsive_data"]},
        "earliest_begin_at": {"type": ["string", "null"], "format": "date-time"},
        "deadline_at": {"type": ["string", "null"], "format": "date-time"},
        "discretionary": {"type": ["boolean", "null"]},
        "waits_for_connectivity": {"type": ["boolean", "null"]},
        "confirm_before_begin": {"type": ["boolean", "null"]},
        "expected_bytes_to_send": {
          "type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991
        },
        "expected_bytes_to_receive": {
          "type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991
        },
        "timeout_for_resource": {"type": ["number", "null"], "minimum": 1, "maximum": 31536000},
        "on_dependency_failure": {"enum": [null, "fail", "ignore"]}
      }
    }
    """#
