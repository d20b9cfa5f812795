import Postgres
import TestSupport
import Testing

@Suite("Values on the wire")
struct ValueTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase() }

    @Test("values of all scalar types are read back unchanged, extremes included")
    func scalars() throws {
        let echo = Statement(
            "echo",
            """
            SELECT $1::bool, $2::int2, $3::int4, $4::int8, $5::float4, $6::float8, $7::text, $8::text,
                   $9::bytea, $10::uuid, $11::timestamptz, $12::jsonb, $13::bool
            """, parameters: 13)
        var parameters = Parameters()
        parameters.append(bool: true)
        parameters.append(int16: .min)
        parameters.append(int32: .min)
        parameters.append(int64: .max)
        parameters.append(float32: -0.1)
        parameters.append(float64: .infinity)
        parameters.append(text: "żółw 🐢 \"'\\ {},NULL\n")
        parameters.append(text: Array("bytes".utf8))
        parameters.append(bytea: Array(0...255))
        parameters.append(uuid: 0x0102_0304_0506_0708, 0xfffe_fdfc_fbfa_f9f8)
        parameters.append(timestamp: 1_700_000_000_123_456)
        parameters.append(jsonb: Array(#"{"a": [1]}"#.utf8))
        parameters.append(bool: false)
        var connection = try Connection(url: database.url)
        let result = try connection.execute(echo, parameters)
        #expect(result.rowCount == 1 && result.columnCount == 13)
        #expect(result.bool(0, 0) == true && result.bool(0, 12) == false)
        #expect(result.int16(0, 1) == .min)
        #expect(result.int32(0, 2) == .min)
        #expect(result.int64(0, 3) == .max)
        #expect(result.float32(0, 4) == -0.1)
        #expect(result.float64(0, 5) == .infinity)
        #expect(result.text(0, 6) == "żółw 🐢 \"'\\ {},NULL\n")
        #expect(result.bytes(0, 7) == Array("bytes".utf8))
        #expect(result.bytes(0, 8) == Array(0...255))
        #expect(result.uuid(0, 9) == (0x0102_0304_0506_0708, 0xfffe_fdfc_fbfa_f9f8))
        #expect(result.timestamp(0, 10) == 1_700_000_000_123_456)
        #expect(result.jsonb(0, 11) == Array(#"{"a": [1]}"#.utf8))
    }

    @Test("the server decodes timestamps and UUIDs to the same values")
    func meaning() throws {
        let statement = Statement(
            "meaning",
            """
            SELECT extract(epoch FROM $1::timestamptz)::bigint, $2::uuid::text, $3::timestamptz::text,
                   $4::timestamptz::text
            """, parameters: 4)
        var parameters = Parameters()
        parameters.append(timestamp: 86_400_000_000)
        parameters.append(uuid: 1, 2)
        parameters.append(timestamp: .max)
        parameters.append(timestamp: .min)
        var connection = try Connection(url: database.url)
        let result = try connection.execute(statement, parameters)
        #expect(result.int64(0, 0) == 86_400)
        #expect(result.text(0, 1) == "00000000-0000-0001-0000-000000000002")
        #expect(result.text(0, 2) == "infinity")
        #expect(result.text(0, 3) == "-infinity")
    }

    @Test("null and empty values differ for all types")
    func nulls() throws {
        let statement = Statement(
            "nulls", "SELECT $1::int8, $2::text, $3::bytea, $4::uuid, $5::text, $6::bytea", parameters: 6)
        var parameters = Parameters()
        parameters.append(int64: nil)
        parameters.append(text: nil as String?)
        parameters.append(bytea: nil)
        parameters.appendNull()
        parameters.append(text: "")
        parameters.append(bytea: [])
        var connection = try Connection(url: database.url)
        let result = try connection.execute(statement, parameters)
        #expect(result.int64OrNil(0, 0) == nil)
        #expect(result.textOrNil(0, 1) == nil)
        #expect(result.bytesOrNil(0, 2) == nil)
        let isNull = result.isNull(0, 3)
        #expect(isNull)
        #expect(result.textOrNil(0, 4) == "")
        #expect(result.bytesOrNil(0, 5) == [])
    }

    @Test("a single empty value is not null")
    func onlyEmpty() throws {
        var parameters = Parameters()
        parameters.append(text: "")
        var connection = try Connection(url: database.url)
        let result = try connection.execute(Statement("empty", "SELECT $1::text", parameters: 1), parameters)
        #expect(result.textOrNil(0, 0) == "")
    }

    @Test("arrays of all types are read back with their nulls, empty ones included")
    func arrays() throws {
        let statement = Statement(
            "arrays",
            """
            SELECT $1::bool[]::text[], $2::int2[]::text[], $3::int4[], $4::int8[], $5::float4[]::text[],
                   $6::float8[], $7::text[], $8::bytea[], $9::uuid[], $10::timestamptz[], $11::jsonb[],
                   $12::text[]
            """, parameters: 12)
        var parameters = Parameters()
        parameters.appendArray(.bool, [true, nil, false]) { $0.append(bool: $1) }
        parameters.appendArray(.int16, [1, nil, -1]) { $0.append(int16: $1) }
        parameters.appendArray(.int32, [1, nil, -1]) { $0.append(int32: $1) }
        parameters.appendArray(.int64, [1, nil, .min]) { $0.append(int64: $1) }
        parameters.appendArray(.float32, [1.5, nil]) { $0.append(float32: $1) }
        parameters.appendArray(.float64, [1.5, nil]) { $0.append(float64: $1) }
        parameters.appendArray(.text, ["a,b", nil, "NULL", "", "{\"}"]) { $0.append(text: $1) }
        parameters.appendArray(.bytea, [[0, 255], nil, []]) { $0.append(bytea: $1) }
        parameters.beginArray(.uuid)
        parameters.append(uuid: 7, 8)
        parameters.appendNull()
        parameters.endArray()
        parameters.appendArray(.timestamp, [0, nil]) { $0.append(timestamp: $1) }
        parameters.appendArray(.jsonb, [Array("{}".utf8), nil]) { $0.append(jsonb: $1) }
        parameters.appendArray(.text, [String]()) { $0.append(text: $1) }
        var connection = try Connection(url: database.url)
        let result = try connection.execute(statement, parameters)
        #expect(result.textArray(0, 0) == ["true", nil, "false"])
        #expect(result.textArray(0, 1) == ["1", nil, "-1"])
        #expect(result.int32Array(0, 2) == [1, nil, -1])
        #expect(result.int64Array(0, 3) == [1, nil, .min])
        #expect(result.textArray(0, 4) == ["1.5", nil])
        #expect(result.float64Array(0, 5) == [1.5, nil])
        #expect(result.textArray(0, 6) == ["a,b", nil, "NULL", "", "{\"}"])
        #expect(result.bytesArray(0, 7) == [[0, 255], nil, []])
        #expect(result.uuidArray(0, 8).map { $0?.low } == [8, nil])
        #expect(result.timestampArray(0, 9) == [0, nil])
        #expect(result.textArray(0, 11) == [])
    }

    @Test("10,000 rows go in as arrays and come out as rows and as arrays, in order")
    func manyRows() throws {
        var connection = try Connection(url: database.url)
        try connection.execute(script: "CREATE TABLE rows (id uuid PRIMARY KEY, size bigint, name text)")
        let insert = Statement(
            "insert_rows", "INSERT INTO rows SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[])",
            parameters: 3)
        let numbers = 0..<10_000
        var parameters = Parameters(capacity: 600_000)
        parameters.appendArray(.uuid, numbers) { $0.append(uuid: 9, UInt64($1)) }
        parameters.appendArray(.int64, numbers) { $0.append(int64: $1 % 3 == 0 ? nil : Int64($1)) }
        parameters.appendArray(.text, numbers) { $0.append(text: "row \($1)") }
        let inserted = try connection.execute(insert, parameters)
        #expect(inserted.affectedRowCount == 10_000)
        let rows = try connection.execute(Statement("rows", "SELECT id, size, name FROM rows ORDER BY id"))
        #expect(rows.rowCount == 10_000)
        for number in numbers {
            guard rows.uuid(number, 0) == (9, UInt64(number)), rows.text(number, 2) == "row \(number)",
                rows.int64OrNil(number, 1) == (number % 3 == 0 ? nil : Int64(number))
            else {
                Issue.record("row \(number) differs")
                return
            }
        }
        let arrays = try connection.execute(
            Statement(
                "arrays_of_rows", "SELECT array_agg(size ORDER BY id), array_agg(name ORDER BY id) FROM rows")
        )
        #expect(arrays.int64Array(0, 0) == numbers.map { $0 % 3 == 0 ? nil : Int64($0) })
        #expect(arrays.textArray(0, 1) == numbers.map { "row \($0)" })
    }

    @Test("parameters can be reused after removeAll")
    func reuse() throws {
        let statement = Statement("plus", "SELECT $1::int8 + 1", parameters: 1)
        var connection = try Connection(url: database.url)
        var parameters = Parameters()
        for number in Int64(0)..<3 {
            parameters.removeAll()
            parameters.append(int64: number)
            let result = try connection.execute(statement, parameters)
            #expect(result.int64(0, 0) == number + 1)
        }
    }
}
