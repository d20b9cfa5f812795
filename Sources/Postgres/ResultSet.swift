import CPostgres

/// The rows of one statement, in binary format.
///
/// Owns the PGresult and frees it with the value. Reading a null, or a type that the column does not have, is
/// an error in Ferry's own SQL and ends the process. The `…OrNil` functions are for columns that may be null.
public struct ResultSet: ~Copyable {
    let raw: OpaquePointer

    init(owning raw: OpaquePointer) { self.raw = raw }

    deinit { PQclear(raw) }

    /// Number of returned rows.
    public var rowCount: Int { Int(PQntuples(raw)) }

    /// Number of columns.
    public var columnCount: Int { Int(PQnfields(raw)) }

    /// Number of rows that were inserted, changed, deleted or returned, from the command tag; 0 for other
    /// commands.
    public var affectedRowCount: Int {
        PQcmdTuples(raw).flatMap { Int(String(cString: $0)) } ?? 0
    }

    /// Returns the name of a column, or `nil` if there is no such column.
    public func columnName(_ column: Int) -> String? {
        PQfname(raw, Int32(column)).map { String(cString: $0) }
    }

    /// Returns `true` if the value is null.
    public func isNull(_ row: Int, _ column: Int) -> Bool {
        PQgetisnull(raw, Int32(row), Int32(column)) != 0
    }

    // MARK: Values

    /// Returns a `boolean`.
    public func bool(_ row: Int, _ column: Int) -> Bool {
        (present(row, column, byteCount: 1).first ?? 0) != 0
    }

    /// Returns a `smallint`.
    public func int16(_ row: Int, _ column: Int) -> Int16 {
        Binary.integer(present(row, column, byteCount: 2))
    }

    /// Returns an `integer`.
    public func int32(_ row: Int, _ column: Int) -> Int32 {
        Binary.integer(present(row, column, byteCount: 4))
    }

    /// Returns a `bigint`.
    public func int64(_ row: Int, _ column: Int) -> Int64 {
        Binary.integer(present(row, column, byteCount: 8))
    }

    /// Returns a `real`.
    public func float32(_ row: Int, _ column: Int) -> Float {
        Float(bitPattern: Binary.integer(present(row, column, byteCount: 4)))
    }

    /// Returns a `double precision`.
    public func float64(_ row: Int, _ column: Int) -> Double {
        Double(bitPattern: Binary.integer(present(row, column, byteCount: 8)))
    }

    /// Returns a `text`, `varchar`, `name` or `json`.
    public func text(_ row: Int, _ column: Int) -> String {
        String(decoding: present(row, column), as: UTF8.self)
    }

    /// Returns a `bytea`, or the UTF-8 bytes of a text.
    public func bytes(_ row: Int, _ column: Int) -> [UInt8] {
        [UInt8](present(row, column))
    }

    /// Returns the JSON text of a `jsonb`.
    public func jsonb(_ row: Int, _ column: Int) -> [UInt8] {
        [UInt8](present(row, column).dropFirst())
    }

    /// Returns the two halves of a `uuid`, the more significant one first.
    public func uuid(_ row: Int, _ column: Int) -> (high: UInt64, low: UInt64) {
        Binary.uuid(present(row, column, byteCount: 16))
    }

    /// Returns a `timestamptz` in microseconds since 1970; Int64.min and .max are −infinity and infinity.
    public func timestamp(_ row: Int, _ column: Int) -> Int64 {
        Timestamp.fromPostgres(int64(row, column))
    }

    /// Returns an `integer`, or `nil` for null.
    public func int32OrNil(_ row: Int, _ column: Int) -> Int32? {
        isNull(row, column) ? nil : int32(row, column)
    }

    /// Returns a `bigint`, or `nil` for null.
    public func int64OrNil(_ row: Int, _ column: Int) -> Int64? {
        isNull(row, column) ? nil : int64(row, column)
    }

    /// Returns a `double precision`, or `nil` for null.
    public func float64OrNil(_ row: Int, _ column: Int) -> Double? {
        isNull(row, column) ? nil : float64(row, column)
    }

    /// Like `text`, with `nil` for null.
    public func textOrNil(_ row: Int, _ column: Int) -> String? {
        isNull(row, column) ? nil : text(row, column)
    }

    /// Like `bytes`, with `nil` for null.
    public func bytesOrNil(_ row: Int, _ column: Int) -> [UInt8]? {
        isNull(row, column) ? nil : bytes(row, column)
    }

    /// Like `jsonb`, with `nil` for null.
    public func jsonbOrNil(_ row: Int, _ column: Int) -> [UInt8]? {
        isNull(row, column) ? nil : jsonb(row, column)
    }

    // MARK: Arrays

    /// Calls `body` with the bytes of each element of a one-dimensional array, and with `nil` for a null
    /// element.
    public func forEachElement(
        _ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer?) -> Void
    ) {
        // No row reaches these preconditions: arrays are written with one dimension.
        var rest = present(row, column)[...]
        func take(_ count: Int) -> UnsafeRawBufferPointer {
            precondition(count <= rest.count, "column \(column) is not an array")
            defer { rest = rest.dropFirst(count) }
            return UnsafeRawBufferPointer(rebasing: rest.prefix(count))
        }
        let dimensionCount: Int32 = Binary.integer(take(4))
        _ = take(8)
        guard dimensionCount == 1 else {
            // As above.
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

    /// Returns a `bigint[]`.
    public func int64Array(_ row: Int, _ column: Int) -> [Int64?] {
        array(row, column) { Binary.integer($0) }
    }

    /// Returns an `integer[]`.
    public func int32Array(_ row: Int, _ column: Int) -> [Int32?] {
        array(row, column) { Binary.integer($0) }
    }

    /// Returns a `double precision[]`.
    public func float64Array(_ row: Int, _ column: Int) -> [Double?] {
        array(row, column) { Double(bitPattern: Binary.integer($0)) }
    }

    /// Returns a `text[]`.
    public func textArray(_ row: Int, _ column: Int) -> [String?] {
        array(row, column) { String(decoding: $0, as: UTF8.self) }
    }

    /// Returns a `bytea[]`.
    public func bytesArray(_ row: Int, _ column: Int) -> [[UInt8]?] {
        array(row, column) { [UInt8]($0) }
    }

    /// Returns a `uuid[]`.
    public func uuidArray(_ row: Int, _ column: Int) -> [(high: UInt64, low: UInt64)?] {
        array(row, column) { Binary.uuid($0) }
    }

    /// Returns a `timestamptz[]` in microseconds since 1970.
    public func timestampArray(_ row: Int, _ column: Int) -> [Int64?] {
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

    // No row reaches these preconditions: the text of a statement decides the number and types of its
    // columns, and a column that can be null is read by a function of optional values.

    private func cell(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        precondition(row < rowCount && column < columnCount, "the result has no cell (\(row), \(column))")
        return UnsafeRawBufferPointer(
            start: PQgetvalue(raw, Int32(row), Int32(column)),
            count: Int(PQgetlength(raw, Int32(row), Int32(column))))
    }

    private func present(_ row: Int, _ column: Int, byteCount: Int? = nil) -> UnsafeRawBufferPointer {
        let bytes = cell(row, column)
        // As above.
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
        // As in `ResultSet`: the column is a uuid.
        precondition(bytes.count == 16, "a uuid has 16 bytes")
        return (
            UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        )
    }
}
