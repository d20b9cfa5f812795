internal import FerryCore

/// Errors of jobs and attempts, as JSON Schema 2020-12. They are made from the enumerations and so have all
/// codes and no others. `x-codes` is the table of docs/errors.md.
let errorSchemas = #"""
    "TransferError": {
      "type": "object", "description": "Why a job or an attempt failed.",
      "required": ["code", "message", "class", "phase", "retryable"],
      "properties": {
        "code": {
          "enum": \#(names(TransferError.Code.self)),
          "description": "Stable code of the error. Later versions may add codes."
        },
        "message": {"type": "string", "description": "The error as a sentence."},
        "class": {"enum": \#(names(TransferError.Class.self)), "description": "Class of the code."},
        "phase": {
          "enum": \#(names(TransferError.Phase.self)),
          "description": "Phase of the attempt in which the error occurred."
        },
        "retryable": {"type": "boolean", "description": "true if another attempt can succeed."},
        "held_by": {
          "enum": \#(names(WaitingReason.Code.self)),
          "description": "Only with the code host_held: why the host gets no request now, as in \#
    waiting_reason."
        }
      },
      "x-codes": \#(codeTable)
    }
    """#

/// Returns the raw values as a JSON array.
func names<Value: CaseIterable & RawRepresentable<String>>(_ type: Value.Type) -> String {
    json { writer in
        writer.beginArray()
        for value in Value.allCases { writer.value(value.rawValue) }
        writer.endArray()
    }
}

private let codeTable = json { writer in
    writer.beginArray()
    for code in TransferError.Code.allCases {
        writer.beginObject()
        writer.member("code", code.rawValue)
        writer.member("class", code.errorClass.rawValue)
        writer.name("phases")
        writer.beginArray()
        for phase in code.phases { writer.value(phase.rawValue) }
        writer.endArray()
        writer.member("retryable", code.repetition.rawValue)
        writer.endObject()
    }
    writer.endArray()
}

private func json(_ write: (inout JSONWriter) -> Void) -> String {
    var writer = JSONWriter()
    write(&writer)
    return String(decoding: writer.bytes, as: UTF8.self)
}
