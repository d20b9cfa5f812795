/// Proxies and TLS of requests, as JSON Schema 2020-12.
let connectionSchemas = #"""
    "PasswordAuthentication": {
      "description": "basic (RFC 7617) is sent at once; digest (RFC 7616, MD5 and SHA-256) answers the \#
    server's challenge, and so does ntlm (MS-NTHT), over HTTP/1.1; the body is sent after it only.",
      "type": "object", "required": ["type", "user", "password"], "additionalProperties": false,
      "properties": {
        "type": {"enum": ["basic", "digest", "ntlm"]},
        "user": {"$ref": "#/components/schemas/UserName"},
        "password": {"$ref": "#/components/schemas/Password"},
        "token": {"type": "null"}
      }
    },
    "TokenAuthentication": {
      "description": "RFC 6750.",
      "type": "object", "required": ["type", "token"], "additionalProperties": false,
      "properties": {
        "type": {"const": "bearer"},
        "user": {"type": "null"}, "password": {"type": "null"},
        "token": {
          "type": "string", "minLength": 1, "maxLength": 8192, "pattern": "^[!-~]+$",
          "description": "Encrypted and shown as {\"set\": true}."
        }
      }
    },
    "UserName": {
      "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^:\\u0000-\\u001f\\u007f]+$",
      "description": "At most 255 bytes of UTF-8."
    },
    "Password": {
      "type": "string", "maxLength": 1024, "pattern": "^[^\\u0000-\\u001f\\u007f]*$",
      "description": "At most 1,024 bytes of UTF-8. Encrypted and shown as {\"set\": true}."
    },
    "Certificates": {
      "type": ["string", "null"], "minLength": 1, "maxLength": 65536,
      "description": "PEM text (RFC 7468) of one or more certificates; shown as {\"set\": true}."
    },
    "TLSRequest": {
      "description": "For https URLs. Host names are always checked. A client certificate stays with its \#
    origin across redirects, everything else holds on every hop; a redirect to http is refused.",
      "type": "object", "additionalProperties": false,
      "properties": {
        "ca": {"$ref": "#/components/schemas/Certificates"},
        "client_certificate": {"$ref": "#/components/schemas/Certificates"},
        "client_key": {
          "type": ["string", "null"], "minLength": 1, "maxLength": 65536,
          "description": "PEM text of the certificate's private key, not encrypted; kept encrypted and \#
    shown as {\"set\": true}."
        },
        "pins": {
          "type": "array", "maxItems": 10, "uniqueItems": true,
          "items": {"type": "string", "pattern": "^sha256//[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$"},
          "description": "SHA-256 of public keys (RFC 7469); the server's must be one of them."
        },
        "minimum_version": {"enum": ["1.2", "1.3"], "default": "1.2"},
        "maximum_version": {"enum": ["1.2", "1.3", null]}
      },
      "dependentRequired": {"client_certificate": ["client_key"], "client_key": ["client_certificate"]},
      "not": {
        "required": ["minimum_version", "maximum_version"],
        "properties": {"minimum_version": {"const": "1.3"}, "maximum_version": {"const": "1.2"}}
      }
    },
    "ProxyRequest": {
      "description": "HTTP, HTTPS or SOCKS5. Names are resolved by the proxy; its own address must be \#
    one that the egress policy allows.",
      "type": "object", "required": ["url"], "additionalProperties": false,
      "properties": {
        "url": {
          "type": "string", "maxLength": 8192,
          "pattern": "^([hH][tT][tT][pP][sS]?|[sS][oO][cC][kK][sS]5[hH]?)://([A-Za-z0-9._-]{1,253}|\#
    \\[[0-9A-Fa-f:.]{2,45}\\]):[1-9][0-9]{0,4}/?$",
          "description": "With its port, without user information."
        },
        "user": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/UserName"}]},
        "password": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Password"}]},
        "type": {
          "enum": ["basic", "digest", "ntlm"], "default": "basic",
          "description": "How the user is told to an HTTP proxy."
        },
        "ca": {
          "$ref": "#/components/schemas/Certificates",
          "description": "PEM text of own authorities for an https proxy."
        },
        "no_proxy": {
          "type": "array", "maxItems": 100, "uniqueItems": true,
          "items": {"type": "string", "minLength": 1, "maxLength": 255},
          "description": "Names (with all names below them), addresses, networks, or *."
        }
      },
      "anyOf": [
        {"properties": {"user": {"type": "null"}, "password": {"type": "null"}}},
        {
          "required": ["user", "password"],
          "properties": {"user": {"type": "string"}, "password": {"type": "string"}}
        }
      ]
    }
    """#
