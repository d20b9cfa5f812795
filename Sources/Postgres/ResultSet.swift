import CPostgres

/// The rows that one statement returned, in binary form.
///
/// Owns the PGresult and frees it with the value. Reading a null, or a type that the column does not have,
/// is a mistake in our own SQL and stops the program; the `…OrNil` forms are for columns that may be null.
package struct ResultSet: ~Copyable {
    let raw: OpaquePointer

    init(owning raw: OpaquePointer) { self.raw = raw }

    deinit { PQclear(raw) }

    /// The number of rows returned.
    package var rowCount: Int { Int(PQntuples(raw)) }

    package var columnCount: Int { Int(PQnfields(raw)) }

    /// Rows inserted, changed, deleted or returned, as the command tag says; 0 for other commands.
    package var affectedRowCount: Int {
        PQcmdTuples(raw).flatMap { Int(String(cString: $0)) } ?? 0
    }

    /// The position of the first column with this name, compared exactly.
    package func columnIndex(_ name: String) -> Int? {
        (0..<PQnfields(raw)).first { column in
            PQfname(raw, column).map { String(cString: $0) == name } ?? false
        }.map(Int.init)
    }

    package func columnName(_ column: Int) -> String? {
        PQfname(raw, Int32(column)).map { String(cString: $0) }
    }

    package func isNull(_ row: Int, _ column: Int) -> Bool {
        PQgetisnull(raw, Int32(row), Int32(column)) != 0
    }

    /// Lends the cell's bytes; a null lends an empty buffer.
    package func withBytes<Value>(
        _ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) -> Value
    ) -> Value {
        body(cell(row, column))
    }

    // MARK: Values

    package func bool(_ row: Int, _ column: Int) -> Bool {
        (present(row, column, byteCount: 1).first ?? 0) != 0
    }

    package func int16(_ row: Int, _ column: Int) -> Int16 {
        Binary.integer(present(row, column, byteCount: 2))
    }

    package func int32(_ row: Int, _ column: Int) -> Int32 {
        Binary.integer(present(row, column, byteCount: 4))
    }

    package func int64(_ row: Int, _ column: Int) -> Int64 {
        Binary.integer(present(row, column, byteCount: 8))
    }

    package func float32(_ row: Int, _ column: Int) -> Float {
        Float(bitPattern: Binary.integer(present(row, column, byteCount: 4)))
    }

    package func float64(_ row: Int, _ column: Int) -> Double {
        Double(bitPattern: Binary.integer(present(row, column, byteCount: 8)))
    }

    /// `text`, `varchar`, `name` or `json`.
    package func text(_ row: Int, _ column: Int) -> String {
        String(decoding: present(row, column), as: UTF8.self)
    }

    /// `bytea`, or the UTF-8 of a text.
    package func bytes(_ row: Int, _ column: Int) -> [UInt8] {
        [UInt8](present(row, column))
    }

    /// The JSON text of a `jsonb`.
    package func jsonb(_ row: Int, _ column: Int) -> [UInt8] {
        [UInt8](present(row, column).dropFirst())
    }

    /// The two halves of a `uuid`, the more significant first.
    package func uuid(_ row: Int, _ column: Int) -> (high: UInt64, low: UInt64) {
        Binary.uuid(present(row, column, byteCount: 16))
    }

    /// Microseconds since 1970; Int64.min and .max are −infinity and infinity.
    package func timestamp(_ row: Int, _ column: Int) -> Int64 {
        Timestamp.fromPostgres(int64(row, column))
    }

    package func boolOrNil(_ row: Int, _ column: Int) -> Bool? {
        isNull(row, column) ? nil : bool(row, column)
    }

    package func int16OrNil(_ row: Int, _ column: Int) -> Int16? {
        isNull(row, column) ? nil : int16(row, column)
    }

    package func int32OrNil(_ row: Int, _ column: Int) -> Int32? {
        isNull(row, column) ? nil : int32(row, column)
    }

    package func int64OrNil(_ row: Int, _ column: Int) -> Int64? {
        isNull(row, column) ? nil : int64(row, column)
    }

    package func float32OrNil(_ row: Int, _ column: Int) -> Float? {
        isNull(row, column) ? nil : float32(row, column)
    }

    package func float64OrNil(_ row: Int, _ column: Int) -> Double? {
        isNull(row, column) ? nil : float64(row, column)
    }

    package func textOrNil(_ row: Int, _ column: Int) -> String? {
        isNull(row, column) ? nil : text(row, column)
    }

    package func bytesOrNil(_ row: Int, _ column: Int) -> [UInt8]? {
        isNull(row, column) ? nil : bytes(row, column)
    }

    package func jsonbOrNil(_ row: Int, _ column: Int) -> [UInt8]? {
        isNull(row, column) ? nil : jsonb(row, column)
    }

    package func uuidOrNil(_ row: Int, _ column: Int) -> (high: UInt64, low: UInt64)? {
        isNull(row, column) ? nil : uuid(row, column)
    }

    package func timestampOrNil(_ row: Int, _ column: Int) -> Int64? {
        isNull(row, column) ? nil : timestamp(row, column)
    }

    // MARK: Arrays

    /// Calls `body` with the bytes of each element of a one-dimensional array; nil is a null element.
    package func forEachElement(
        _ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer?) -> Void
    ) {
        var rest = present(row, column)[...]
        func take(_ count: Int) -> UnsafeRawBufferPointer {
            precondition(count <= rest.count, "column \(column) is not an array")
            defer { rest = rest.dropFirst(count) }
            return UnsafeRawBufferPointer(rebasing: rest.prefix(count))
        }
        let dimensionCount: Int32 = Binary.integer(take(4))
        _ = take(8)
        guard dimensionCount == 1 else {
            precondition(dimensionCount == 0, "column \(column) is not a one-dimensional array")
            return
        }
        let count: Int32 = Binary.integer(take(4))
        _ = take(4)
        for _ in 0..<count {
            let byteCount: Int32 = Binary.integer(take(4))
            body(byteCount < 0 ? nil : take(Int(byteCount)))
        }
    }

    /// A `bigint[]`.
    package func int64Array(_ row: Int, _ column: Int) -> [Int64?] {
        array(row, column) { Binary.integer($0) }
    }

    /// An `integer[]`.
    package func int32Array(_ row: Int, _ column: Int) -> [Int32?] {
        array(row, column) { Binary.integer($0) }
    }

    /// A `smallint[]`.
    package func int16Array(_ row: Int, _ column: Int) -> [Int16?] {
        array(row, column) { Binary.integer($0) }
    }

    /// A `boolean[]`.
    package func boolArray(_ row: Int, _ column: Int) -> [Bool?] {
        array(row, column) { $0.first == 1 }
    }

    /// A `real[]`.
    package func float32Array(_ row: Int, _ column: Int) -> [Float?] {
        array(row, column) { Float(bitPattern: Binary.integer($0)) }
    }

    /// A `double precision[]`.
    package func float64Array(_ row: Int, _ column: Int) -> [Double?] {
        array(row, column) { Double(bitPattern: Binary.integer($0)) }
    }

    /// A `text[]`.
    package func textArray(_ row: Int, _ column: Int) -> [String?] {
        array(row, column) { String(decoding: $0, as: UTF8.self) }
    }

    /// A `bytea[]`.
    package func bytesArray(_ row: Int, _ column: Int) -> [[UInt8]?] {
        array(row, column) { [UInt8]($0) }
    }

    /// A `uuid[]`.
    package func uuidArray(_ row: Int, _ column: Int) -> [(high: UInt64, low: UInt64)?] {
        array(row, column) { Binary.uuid($0) }
    }

    /// A `timestamptz[]`, as microseconds since 1970.
    package func timestampArray(_ row: Int, _ column: Int) -> [Int64?] {
        array(row, column) { Timestamp.fromPostgres(Binary.integer($0)) }
    }

    private func array<Element>(
        _ row: Int, _ column: Int, _ decode: (UnsafeRawBufferPointer) -> Element
    ) -> [Element?] {
        var elements: [Element?] = []
        forEachElement(row, column) { elements.append($0.map(decode)) }
        return elements
    }

    // MARK: Cells

    private func cell(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        precondition(row < rowCount && column < columnCount, "the result has no cell (\(row), \(column))")
        return UnsafeRawBufferPointer(
            start: PQgetvalue(raw, Int32(row), Int32(column)),
            count: Int(PQgetlength(raw, Int32(row), Int32(column))))
    }

    private func present(_ row: Int, _ column: Int, byteCount: Int? = nil) -> UnsafeRawBufferPointer {
        let bytes = cell(row, column)
        precondition(!isNull(row, column), "column \(columnName(column) ?? "?") is null")
        precondition(
            byteCount == nil || byteCount == bytes.count,
            "column \(columnName(column) ?? "?") has \(bytes.count) bytes and not \(byteCount ?? 0)")
        return bytes
    }
}

/// Decoding of PostgreSQL's binary formats (the *send functions of src/backend/utils/adt).
enum Binary {
    static func integer<Value: FixedWidthInteger & BitwiseCopyable>(_ bytes: UnsafeRawBufferPointer) -> Value
    {
        precondition(bytes.count == MemoryLayout<Value>.size, "the value has another width")
        return Value(bigEndian: bytes.loadUnaligned(as: Value.self))
    }

    static func uuid(_ bytes: UnsafeRawBufferPointer) -> (high: UInt64, low: UInt64) {
        precondition(bytes.count == 16, "a uuid has 16 bytes")
        return (
            UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        )
    }
}
