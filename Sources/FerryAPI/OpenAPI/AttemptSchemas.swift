/// Response of `/attempts`, as JSON Schema 2020-12.
let attemptSchemas = #"""
    "AttemptList": {
      "type": "object", "description": "The attempts of a job.", "required": ["data", "omitted_attempts"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Attempt"},
          "description": "The latest attempts, at most 50, oldest first."
        },
        "omitted_attempts": {
          "type": "integer", "minimum": 0,
          "description": "Number of attempts before the first one in data. Some of them may have returned \#
    to the queue before they began."
        }
      }
    },
    "Attempt": {
      "type": "object", "description": "One run of a job on one node.",
      "required": [
        "number", "node", "started_at", "finished_at", "outcome", "error", "transactions",
        "omitted_transactions", "redirect_count"
      ],
      "properties": {
        "number": {
          "type": "integer", "minimum": 1, "description": "Number of the attempt. Numbers may skip."
        },
        "node": {
          "type": ["string", "null"],
          "description": "Identifier of the node that ran the attempt, or null if not known."
        },
        "started_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time of the start, or null if no longer known."
        },
        "finished_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time of the end, or null while the attempt runs. For a lost attempt: time at \#
    which the loss was detected."
        },
        "outcome": {
          "enum": [null, "succeeded", "failed", "cancelled", "released", "lost", "suspended", "asked"],
          "description": "Outcome of the attempt, or null while it runs. released: the node returned the \#
    job to the queue. lost: the node died or lost the database. suspended: a client suspended the job. \#
    asked: the attempt asked a question."
        },
        "error": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransferError"}],
          "description": "Why the attempt failed, or null."
        },
        "transactions": {
          "type": "array", "items": {"$ref": "#/components/schemas/Transaction"},
          "description": "Requests of the attempt, in the order of their ends, at most 32."
        },
        "omitted_transactions": {
          "type": "integer", "minimum": 0,
          "description": "Number of transactions before the last one that are not stored."
        },
        "redirect_count": {
          "type": "integer", "minimum": 0,
          "description": "Number of redirects that the attempt followed."
        },
        "diagnostics": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/AttemptDiagnostics"}],
          "description": "Details of a failure, or null. Only shown to keys with the role admin."
        }
      }
    },
    "AttemptDiagnostics": {
      "type": "object",
      "description": "What libcurl or the operating system reported about a failure.",
      "required": ["curl_code", "curl_message", "os_error"],
      "properties": {
        "curl_code": {
          "type": ["integer", "null"],
          "description": "Code of libcurl-errors(3), or null if libcurl reported none."
        },
        "curl_message": {
          "type": ["string", "null"],
          "description": "Message of libcurl, at most 256 bytes, or null if libcurl reported none."
        },
        "os_error": {
          "type": ["integer", "null"],
          "description": "Code of errno(3), or null if no system call failed."
        }
      }
    },
    "Transaction": {
      "type": "object",
      "description": "One request of an attempt with its response. Redirects, repetitions and challenges \#
    each make another transaction. Times of steps that did not occur are null: a reused connection has no \#
    lookup and no connect, a numeric address has no lookup.",
      "required": [
        "request", "response", "fetch_start_at", "domain_lookup_start_at", "domain_lookup_end_at",
        "connect_start_at", "secure_connection_start_at", "secure_connection_end_at", "connect_end_at",
        "request_start_at", "request_end_at", "response_start_at", "response_end_at", "network_protocol_name",
        "is_proxy_connection", "is_reused_connection", "resource_fetch_type", "local_address", "local_port",
        "remote_address", "remote_port", "tls_protocol_version", "tls_cipher_suite",
        "count_of_request_header_bytes_sent", "count_of_request_body_bytes_sent",
        "count_of_response_header_bytes_received", "count_of_response_body_bytes_received",
        "count_of_response_body_bytes_after_decoding"
      ],
      "properties": {
        "request": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransactionRequest"}],
          "description": "The request, or null if it is not known."
        },
        "response": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransactionResponse"}],
          "description": "The response, or null if there was none."
        },
        "fetch_start_at": {"$ref": "#/components/schemas/Moment", "description": "Start of the transaction."},
        "domain_lookup_start_at": {
          "$ref": "#/components/schemas/Moment", "description": "Start of the name lookup."
        },
        "domain_lookup_end_at": {
          "$ref": "#/components/schemas/Moment", "description": "End of the name lookup."
        },
        "connect_start_at": {
          "$ref": "#/components/schemas/Moment", "description": "Start of the connection setup."
        },
        "secure_connection_start_at": {
          "$ref": "#/components/schemas/Moment",
          "description": "Start of the TLS handshake; null if the handshake failed."
        },
        "secure_connection_end_at": {
          "$ref": "#/components/schemas/Moment", "description": "End of the TLS handshake."
        },
        "connect_end_at": {
          "$ref": "#/components/schemas/Moment",
          "description": "End of the connection setup, TLS handshake included."
        },
        "request_start_at": {
          "$ref": "#/components/schemas/Moment",
          "description": "Time at which the first byte of the request was sent."
        },
        "request_end_at": {
          "$ref": "#/components/schemas/Moment",
          "description": "Time at which the last byte of the request was sent."
        },
        "response_start_at": {
          "$ref": "#/components/schemas/Moment",
          "description": "Time at which the first byte of the response arrived."
        },
        "response_end_at": {
          "$ref": "#/components/schemas/Moment",
          "description": "Time at which the last byte of the response arrived."
        },
        "network_protocol_name": {
          "enum": [null, "http/1.0", "http/1.1", "h2", "h3"],
          "description": "Protocol of the connection by its ALPN name (RFC 7301), or null if not known."
        },
        "is_proxy_connection": {"type": "boolean", "description": "true if the connection was to a proxy."},
        "is_reused_connection": {
          "type": "boolean",
          "description": "true if an earlier request used the connection."
        },
        "resource_fetch_type": {
          "enum": ["network_load"], "description": "Always network_load, as in URLSession."
        },
        "local_address": {
          "type": ["string", "null"],
          "description": "Local IP address of the connection, or null without a connection."
        },
        "local_port": {
          "type": ["integer", "null"],
          "description": "Local port of the connection, or null without a connection."
        },
        "remote_address": {
          "type": ["string", "null"],
          "description": "IP address of the server, or of the proxy if there is one. Null without a \#
    connection."
        },
        "remote_port": {
          "type": ["integer", "null"],
          "description": "Port of the server, or of the proxy if there is one. Null without a connection."
        },
        "tls_protocol_version": {
          "type": ["string", "null"], "examples": ["TLSv1.3"],
          "description": "Version of TLS, or null without TLS."
        },
        "tls_cipher_suite": {
          "type": ["string", "null"], "examples": ["TLS_AES_256_GCM_SHA384"],
          "description": "Cipher suite of TLS, or null without TLS."
        },
        "count_of_request_header_bytes_sent": {
          "type": "integer", "description": "Bytes of the request head sent."
        },
        "count_of_request_body_bytes_sent": {
          "type": "integer", "description": "Bytes of the request body sent."
        },
        "count_of_response_header_bytes_received": {
          "type": "integer", "description": "Bytes of the response head received."
        },
        "count_of_response_body_bytes_received": {
          "type": "integer",
          "description": "Bytes of the response body received, before decoding."
        },
        "count_of_response_body_bytes_after_decoding": {
          "type": "integer", "description": "Bytes of the response body after decoding."
        }
      }
    },
    "TransactionRequest": {
      "type": "object", "description": "A request of an attempt.", "required": ["method", "url"],
      "properties": {
        "method": {"type": "string", "description": "Method of the request."},
        "url": {"$ref": "#/components/schemas/ShownURL", "description": "URL of the request."}
      }
    },
    "TransactionResponse": {
      "type": "object", "description": "A response to an attempt.", "required": ["status"],
      "properties": {"status": {"type": "integer", "description": "HTTP status code."}}
    },
    "Moment": {
      "type": ["string", "null"],
      "description": "A point in time, or null if the step did not occur.",
      "format": "date-time"
    }
    """#
