/// Objects of responses that no declaration describes, as JSON Schema 2020-12.
let answerSchemas = #"""
    "ShownURL": {
      "type": "string",
      "description": "A URL. Clients and admins see the whole URL. For viewers, and in events and webhooks, \#
    *** replaces user information and each value of the query.",
      "examples": ["https://store.example/a.csv?X-Amz-Expires=***&X-Amz-Signature=***"]
    },
    "Hidden": {
      "type": "object", "required": ["set"], "additionalProperties": false,
      "properties": {"set": {"type": "boolean", "description": "Always true."}},
      "description": "Shows that a secret value is set, without the value."
    },
    "ShownSize": {
      "type": "object", "required": ["size"], "additionalProperties": false,
      "properties": {"size": {"type": "integer", "description": "Size in bytes."}},
      "description": "Size of a content that is not shown."
    },
    "ShownBytes": {
      "type": "object", "required": ["base64"], "additionalProperties": false,
      "properties": {
        "base64": {"type": "string", "contentEncoding": "base64", "description": "The bytes (RFC 4648)."}
      },
      "description": "Bytes that are no text."
    },
    "ShownFieldValue": {
      "oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/Hidden"}],
      "description": "Value of a header field, or a mark that hides it."
    },
    "ShownHeaderField": {
      "type": "object", "required": ["name", "value"], "additionalProperties": false,
      "properties": {
        "name": {"type": "string", "description": "Name as it was sent."},
        "value": {"$ref": "#/components/schemas/ShownFieldValue", "description": "Value."}
      },
      "description": "One line of a header section."
    },
    "TransferResponse": {
      "type": "object",
      "description": "The last response of the server, after redirects.",
      "required": [
        "status", "url", "headers", "header_fields", "mime_type", "suggested_filename",
        "expected_content_length"
      ],
      "properties": {
        "status": {"type": "integer", "description": "HTTP status code."},
        "url": {
          "$ref": "#/components/schemas/ShownURL", "description": "URL of the response, after redirects."
        },
        "headers": {
          "type": "object", "additionalProperties": {"$ref": "#/components/schemas/ShownFieldValue"},
          "description": "Header fields by name; values of the same name are combined with a comma (RFC \#
    9110 §5.3). Set-Cookie is only in header_fields. Clients and admins see all values. Viewers, events and \#
    webhooks see the values of fields that carry no credentials."
        },
        "header_fields": {
          "type": "array", "items": {"$ref": "#/components/schemas/ShownHeaderField"},
          "description": "Every line of the header section in order."
        },
        "mime_type": {
          "type": ["string", "null"],
          "description": "Media type without parameters, in lower case, or null if the response has none."
        },
        "suggested_filename": {
          "type": ["string", "null"],
          "description": "Safe file name from Content-Disposition, or else from the URL; null if there is \#
    none."
        },
        "expected_content_length": {
          "type": ["integer", "null"],
          "description": "Bytes of the body that the response announces, or null if it announces none."
        },
        "body_excerpt": {
          "type": "string",
          "description": "First 2 KiB of a text body that is not stored, because the response was not \#
    accepted. Absent if there is none."
        },
        "content": {
          "$ref": "#/components/schemas/ResponseContent",
          "description": "Only of a failed upload whose response had a body that is kept: GET \#
    /v1/jobs/{id}/content returns the body."
        }
      }
    },
    "EmptyRequest": {"type": "object", "description": "An object without members.", "maxProperties": 0}
    """#
