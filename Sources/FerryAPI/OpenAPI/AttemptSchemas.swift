/// Response of `/attempts`, as JSON Schema 2020-12.
let attemptSchemas = #"""
    "AttemptList": {
      "type": "object", "required": ["data", "omitted_attempts"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Attempt"}},
        "omitted_attempts": {
          "type": "integer", "minimum": 0,
          "description": "How many numbers come before the first one that is shown, once there are more \#
          than the latest 50, which are kept. Some of them may have been given back before anything began."
        }
      }
    },
    "Attempt": {
      "type": "object",
      "required": [
        "number", "node", "started_at", "finished_at", "outcome", "error", "transactions",
        "omitted_transactions", "redirect_count"
      ],
      "properties": {
        "number": {"type": "integer", "minimum": 1},
        "node": {"type": ["string", "null"]},
        "started_at": {
          "type": ["string", "null"], "format": "date-time", "description": "Null: only its node knew."
        },
        "finished_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Null: it runs. Of a lost one: when its loss was noticed."
        },
        "outcome": {
          "enum": [null, "succeeded", "failed", "cancelled", "released", "lost", "suspended", "asked"],
          "description": "Null: it runs. released: the node gave the job back. lost: the node died."
        },
        "error": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransferError"}]},
        "transactions": {"type": "array", "items": {"$ref": "#/components/schemas/Transaction"}},
        "omitted_transactions": {
          "type": "integer", "minimum": 0,
          "description": "How many before the last one are not kept: 32 are."
        },
        "redirect_count": {
          "type": "integer", "minimum": 0, "description": "How many redirects were followed."
        },
        "diagnostics": {
          "description": "For the role admin only: what libcurl or the operating system said.",
          "oneOf": [
            {"type": "null"},
            {
              "type": "object", "required": ["curl_code", "curl_message", "os_error"],
              "properties": {
                "curl_code": {"type": ["integer", "null"], "description": "See libcurl-errors(3)."},
                "curl_message": {"type": ["string", "null"]},
                "os_error": {"type": ["integer", "null"], "description": "errno(3)"}
              }
            }
          ]
        }
      }
    },
    "Transaction": {
      "type": "object",
      "description": "One request and its answer: a redirect hop, a repetition. What did not happen is \#
    null. A kept connection has no lookup and no connect, an address in the URL no lookup. A \#
    challenge and the request that answers it are two; a handshake that fails has no start.",
      "required": [
        "request", "response", "fetch_start_at", "domain_lookup_start_at", "domain_lookup_end_at",
        "connect_start_at", "secure_connection_start_at", "secure_connection_end_at", "connect_end_at",
        "request_start_at", "request_end_at", "response_start_at", "response_end_at",
        "network_protocol_name", "is_proxy_connection", "is_reused_connection", "resource_fetch_type",
        "local_address", "local_port", "remote_address", "remote_port", "tls_protocol_version",
        "tls_cipher_suite", "count_of_request_header_bytes_sent", "count_of_request_body_bytes_sent",
        "count_of_response_header_bytes_received", "count_of_response_body_bytes_received",
        "count_of_response_body_bytes_after_decoding"
      ],
      "properties": {
        "request": {
          "type": ["object", "null"], "required": ["method", "url"],
          "properties": {"method": {"type": "string"}, "url": {"$ref": "#/components/schemas/ShownURL"}}
        },
        "response": {
          "type": ["object", "null"], "required": ["status"],
          "properties": {"status": {"type": "integer"}}
        },
        "fetch_start_at": {"$ref": "#/components/schemas/Moment"},
        "domain_lookup_start_at": {"$ref": "#/components/schemas/Moment"},
        "domain_lookup_end_at": {"$ref": "#/components/schemas/Moment"},
        "connect_start_at": {"$ref": "#/components/schemas/Moment"},
        "secure_connection_start_at": {"$ref": "#/components/schemas/Moment"},
        "secure_connection_end_at": {"$ref": "#/components/schemas/Moment"},
        "connect_end_at": {"$ref": "#/components/schemas/Moment"},
        "request_start_at": {"$ref": "#/components/schemas/Moment"},
        "request_end_at": {"$ref": "#/components/schemas/Moment"},
        "response_start_at": {"$ref": "#/components/schemas/Moment"},
        "response_end_at": {"$ref": "#/components/schemas/Moment"},
        "network_protocol_name": {"enum": [null, "http/1.0", "http/1.1", "h2", "h3"]},
        "is_proxy_connection": {"type": "boolean"},
        "is_reused_connection": {"type": "boolean"},
        "resource_fetch_type": {"enum": ["network_load"]},
        "local_address": {"type": ["string", "null"]},
        "local_port": {"type": ["integer", "null"]},
        "remote_address": {
          "type": ["string", "null"], "description": "The proxy's when there is one; never a blocked one."
        },
        "remote_port": {"type": ["integer", "null"]},
        "tls_protocol_version": {"type": ["string", "null"], "examples": ["TLSv1.3"]},
        "tls_cipher_suite": {"type": ["string", "null"], "examples": ["TLS_AES_256_GCM_SHA384"]},
        "count_of_request_header_bytes_sent": {"type": "integer"},
        "count_of_request_body_bytes_sent": {"type": "integer"},
        "count_of_response_header_bytes_received": {"type": "integer"},
        "count_of_response_body_bytes_received": {"type": "integer"},
        "count_of_response_body_bytes_after_decoding": {"type": "integer"}
      }
    },
    "Moment": {"type": ["string", "null"], "format": "date-time"}
    """#
