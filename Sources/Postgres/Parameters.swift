/// Parameters of one execution, encoded as they are added.
///
/// Values are appended to one buffer, which can be reused, so no value allocates memory of its own. Between
/// `beginArray` and `endArray` the same functions add elements instead of parameters. Values are encoded in
/// PostgreSQL's binary formats (src/backend/utils/adt/*recv functions), which a cast in the SQL text
/// (`$1::uuid[]`) must match.
public struct Parameters: Sendable {
    /// Position of a parameter in `bytes`; `byteCount` is −1 for null.
    struct Entry {
        let offset: Int
        let byteCount: Int32
    }

    /// Types of array elements. The raw value is the type's OID (pg_type.dat).
    public enum ElementType: UInt32, Sendable {
        case bool = 16
        case bytea = 17
        case int64 = 20
        case int16 = 21
        case int32 = 23
        case text = 25
        case float32 = 700
        case float64 = 701
        case timestamp = 1184
        case uuid = 2950
        case jsonb = 3802
    }

    /// Number of parameters that most statements do not exceed.
    private static let expectedCount = 40

    /// Dimensions, null flag, element type, length and lower bound (array_recv), before `endArray` sets them.
    private static let emptyArrayHeader = [UInt8](repeating: 0, count: 20)

    private(set) var bytes: [UInt8] = []
    private(set) var entries: [Entry] = []
    /// Offset of the array that is being written; −1 if there is none.
    private var arrayOffset = -1
    private var arrayType = ElementType.bool
    private var elementCount: Int32 = 0
    private var hasNullElement = false

    /// Creates an empty list. `capacity`: expected number of bytes; 0 if no parameter follows.
    public init(capacity: Int = 256) {
        guard capacity > 0 else { return }
        bytes.reserveCapacity(capacity)
        entries.reserveCapacity(Self.expectedCount)
    }

    /// Number of complete parameters.
    public var count: Int { entries.count }

    /// Removes all parameters and keeps the memory.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
        arrayOffset = -1
    }

    /// The encoded values in order; `nil` for null. `append(bytea:)` adds them again, for the same statement.
    public var values: [ArraySlice<UInt8>?] {
        entries.map { entry in
            entry.byteCount < 0 ? nil : bytes[entry.offset..<(entry.offset + Int(entry.byteCount))]
        }
    }

    // MARK: Arrays

    /// Begins a one-dimensional array. Values added until `endArray()` are its elements.
    public mutating func beginArray(_ type: ElementType) {
        // No input reaches this: the calls are those of the statement's function.
        precondition(arrayOffset < 0, "an array of arrays cannot be a parameter")
        arrayOffset = bytes.count
        elementCount = 0
        hasNullElement = false
        bytes.append(contentsOf: Self.emptyArrayHeader)
        arrayType = type
    }

    /// Completes the array.
    public mutating func endArray() {
        // As in `beginArray`.
        precondition(arrayOffset >= 0, "endArray() without beginArray(_:)")
        let isEmpty = elementCount == 0
        if isEmpty { bytes.removeLast(8) }
        let (dimensions, hasNull): (UInt32, UInt32) = (isEmpty ? 0 : 1, hasNullElement ? 1 : 0)
        bytes.withUnsafeMutableBytes { [arrayOffset, arrayType, elementCount] bytes in
            let store = { (value: UInt32, offset: Int) in
                bytes.storeBytes(of: value.bigEndian, toByteOffset: arrayOffset + offset, as: UInt32.self)
            }
            store(dimensions, 0)
            store(hasNull, 4)
            store(arrayType.rawValue, 8)
            guard !isEmpty else { return }
            store(UInt32(bitPattern: elementCount), 12)
            store(1, 16)
        }
        entries.append(Entry(offset: arrayOffset, byteCount: Int32(bytes.count - arrayOffset)))
        arrayOffset = -1
    }

    /// Adds an array with one element for each of `values`. `add` must append exactly one element.
    @inlinable
    public mutating func appendArray<Values: Sequence>(
        _ type: ElementType, _ values: Values, add: (inout Parameters, Values.Element) -> Void
    ) {
        beginArray(type)
        for value in values { add(&self, value) }
        endArray()
    }

    // MARK: Values

    /// Adds a null.
    public mutating func appendNull() {
        if arrayOffset < 0 {
            entries.append(Entry(offset: bytes.count, byteCount: -1))
        } else {
            hasNullElement = true
            elementCount += 1
            write(UInt32.max)
        }
    }

    /// Adds a `boolean`, or null for `nil`.
    public mutating func append(bool value: Bool?) {
        guard let value else { return appendNull() }
        begin(byteCount: 1)
        bytes.append(value ? 1 : 0)
    }

    /// Adds a `smallint`, or null for `nil`.
    public mutating func append(int16 value: Int16?) {
        guard let value else { return appendNull() }
        begin(byteCount: 2)
        write(UInt16(bitPattern: value))
    }

    /// Adds an `integer`, or null for `nil`.
    public mutating func append(int32 value: Int32?) {
        guard let value else { return appendNull() }
        begin(byteCount: 4)
        write(UInt32(bitPattern: value))
    }

    /// Adds a `bigint`, or null for `nil`.
    public mutating func append(int64 value: Int64?) {
        guard let value else { return appendNull() }
        begin(byteCount: 8)
        write(UInt64(bitPattern: value))
    }

    /// Adds a `real`, or null for `nil`.
    public mutating func append(float32 value: Float?) {
        guard let value else { return appendNull() }
        begin(byteCount: 4)
        write(value.bitPattern)
    }

    /// Adds a `double precision`, or null for `nil`.
    public mutating func append(float64 value: Double?) {
        guard let value else { return appendNull() }
        begin(byteCount: 8)
        write(value.bitPattern)
    }

    /// Adds a `text`, `varchar` or `json`. The server rejects U+0000 (22021).
    public mutating func append(text value: String?) {
        guard var value else { return appendNull() }
        value.withUTF8 { utf8 in
            begin(byteCount: utf8.count)
            bytes.append(contentsOf: utf8)
        }
    }

    /// Adds a `text` from UTF-8 bytes. The server rejects bytes that are not UTF-8 (22021).
    public mutating func append(text value: [UInt8]?) {
        guard let value else { return appendNull() }
        begin(byteCount: value.count)
        bytes.append(contentsOf: value)
    }

    /// Adds a `bytea`: any bytes.
    public mutating func append(bytea value: [UInt8]?) {
        append(text: value)
    }

    /// Adds a `jsonb` from JSON text in UTF-8.
    public mutating func append(jsonb value: [UInt8]?) {
        guard let value else { return appendNull() }
        begin(byteCount: value.count + 1)
        bytes.append(1)  // The only version of the format (jsonb_recv).
        bytes.append(contentsOf: value)
    }

    /// Adds a `uuid` from its two halves, the more significant one first.
    public mutating func append(uuid high: UInt64, _ low: UInt64) {
        begin(byteCount: 16)
        write(high)
        write(low)
    }

    /// Adds a `timestamptz` from microseconds since 1970; Int64.min and .max are −infinity and infinity.
    public mutating func append(timestamp microseconds: Int64?) {
        guard let microseconds else { return appendNull() }
        begin(byteCount: 8)
        write(UInt64(bitPattern: Timestamp.toPostgres(microseconds)))
    }

    // MARK: Bytes

    private mutating func begin(byteCount: Int) {
        // No input reaches this: bodies have far lower limits.
        precondition(byteCount < Int32.max, "a parameter of 2 GiB cannot be sent")
        if arrayOffset < 0 {
            entries.append(Entry(offset: bytes.count, byteCount: Int32(byteCount)))
        } else {
            elementCount += 1
            write(UInt32(byteCount))
        }
    }

    private mutating func write<Value: FixedWidthInteger>(_ value: Value) {
        bytes.append(addingCapacity: MemoryLayout<Value>.size) { output in
            output.withUnsafeMutableBufferPointer { buffer, count in
                UnsafeMutableRawBufferPointer(buffer).storeBytes(of: value.bigEndian, as: Value.self)
                count = MemoryLayout<Value>.size
            }
        }
    }
}

/// Conversion of timestamps: PostgreSQL counts microseconds since 2000, Ferry since 1970.
enum Timestamp {
    private static let epoch: Int64 = 946_684_800_000_000

    static func toPostgres(_ microseconds: Int64) -> Int64 {
        if microseconds == .min || microseconds == .max { return microseconds }
        let (difference, overflow) = microseconds.subtractingReportingOverflow(epoch)
        return overflow ? .min : difference
    }

    static func fromPostgres(_ microseconds: Int64) -> Int64 {
        if microseconds == .min || microseconds == .max { return microseconds }
        let (sum, overflow) = microseconds.addingReportingOverflow(epoch)
        return overflow ? .max : sum
    }
}
