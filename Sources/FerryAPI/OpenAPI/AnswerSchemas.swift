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
    "EmptyRequest": {"type": "object", "description": "An object without members.", "maxProperties": 0}
    """#
