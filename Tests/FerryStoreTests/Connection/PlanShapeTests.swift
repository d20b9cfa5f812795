import FerryCore
import Postgres
import TestSupport
import Testing

@testable import FerryStore

/// Plans of all statements in the database of `LongHistory`, with current statistics and the settings of
/// their connections. Statements that change rows are undone.
extension PlanTests {
    @Test("every statement has a call for the tests of plans")
    func everyStatementIsCalled() {
        let called = Set(PlanCall.all.map(\.statement.name))
        #expect(called.union(PlanCall.withoutPlan) == Set(Statements.all.map(\.name)))
        #expect(called.isDisjoint(with: PlanCall.withoutPlan))
        #expect(Set(PlanCall.whole.keys).isSubset(of: called))
    }

    @Test(
        "each statement finds its rows in the same order of tables and indexes as in an empty database",
        arguments: PlanCall.Role.allCases)
    func shapes(role: PlanCall.Role) throws {
        let calls = PlanCall.all.filter { $0.role == role }
        let empty = try TestDatabase(template: template)
        var connection = try Connection(url: empty.url, options: role.options)
        try Self.prepare(calls, &connection)
        let before = try calls.map { try Self.shape(of: $0, &connection) }
        var large = try Self.prepared(calls, role)
        for (call, shape) in zip(calls, before) where call.statement.name != "check_rows" {
            let other = try Self.shape(of: call, &large)
            #expect(other == shape, "\(call.statement.name)")
        }
        try large.execute(script: "ROLLBACK")
    }

    @Test(
        "each row that a statement returns or changes costs at most the depth of each index and two pages",
        arguments: PlanCall.Role.allCases)
    func pages(role: PlanCall.Role) throws {
        let calls = PlanCall.all.filter { $0.role == role && PlanCall.whole[$0.statement.name] == nil }
        var connection = try Self.prepared(calls, role)
        let sizes = try RelationSizes(&connection)
        for (index, call) in calls.enumerated() {
            // The first execution reads the catalog.
            _ = try Self.execute(call, "first_\(index)", &connection)
            let plan = try Self.execute(call, "second_\(index)", &connection)
            let cost = PlanCost(plan, sizes, rowCountMin: call.rowCount)
            #expect(
                cost.pageCount <= cost.pageCountMax,
                """
                \(call.statement.name) touches \(cost.pageCount) pages and may \(cost.pageCountMax), \
                for \(cost.rowCount) rows: \(cost.scans)
                """)
        }
        try connection.execute(script: "ROLLBACK")
    }

    /// Opens a transaction in which the statistics are current, and prepares the statements.
    private static func prepared(_ calls: [PlanCall], _ role: PlanCall.Role) throws -> Connection {
        var connection = try Connection(url: try LongHistory.shared.get().url, options: role.options)
        try connection.execute(script: "BEGIN; ANALYZE")
        try prepare(calls, &connection)
        return connection
    }

    /// Prepares each statement once. A statement may have several calls.
    private static func prepare(_ calls: [PlanCall], _ connection: inout Connection) throws {
        var names: Set<String> = []
        for statement in calls.map(\.statement) where names.insert(statement.name).inserted {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
        }
    }

    private static func shape(
        of call: PlanCall, _ connection: inout Connection
    ) throws -> PlanShape {
        let (name, count) = (call.statement.name, call.statement.parameterCount)
        let arguments = Array(repeating: "NULL", count: count).joined(separator: ", ")
        let execution = name + (count == 0 ? "" : "(\(arguments))")
        let text = try connection.execute(
            Statement("shape_\(name)", "EXPLAIN (FORMAT JSON, COSTS off) EXECUTE \(execution)")
        ).text(0, 0)
        return PlanShape(try root(text))
    }

    /// Executes a prepared statement and undoes what it does. `label` is unique in the connection.
    private static func execute(
        _ call: PlanCall, _ label: String, _ connection: inout Connection
    ) throws -> JSON {
        let name = call.statement.name
        let execution = name + (call.arguments.isEmpty ? "" : "(\(call.arguments))")
        try connection.execute(script: "SAVEPOINT before")
        let text = try connection.execute(
            Statement(
                "\(label)_\(name)",
                "EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT JSON) EXECUTE \(execution)")
        ).text(0, 0)
        try connection.execute(script: "ROLLBACK TO before; RELEASE before")
        return try root(text)
    }

    static func root(_ text: String) throws -> JSON {
        try #require(try JSON.parse(Array(text.utf8)).array?.first?["Plan"])
    }

    @Test("a claim reads no waiting job, however many there are and whatever they wait for")
    func claimBesideWaitingJobs() throws {
        var costs: [PlanCost] = []
        for waitingCount in [0, 100_000] {
            let database = try TestDatabase(template: template)
            var connection = try Connection(url: database.url, options: PlanCall.Role.writer.options)
            try connection.execute(script: Self.queue(waitingCount))
            let sizes = try RelationSizes(&connection)
            let claim = Statements.claimJobs
            try connection.execute(script: "BEGIN; PREPARE claim_jobs AS \(claim.sql)")
            let call = try #require(PlanCall.all.first { $0.statement.name == claim.name })
            _ = try Self.execute(call, "first", &connection)
            let plan = try Self.execute(call, "second", &connection)
            try connection.execute(script: "ROLLBACK")
            let cost = PlanCost(plan, sizes, rowCountMin: 0)
            #expect(cost.scannedRowCount["jobs_queued"] == 50)
            #expect(cost.filteredRowCount == 0)
            costs.append(cost)
        }
        #expect(costs[0].scannedPageCount["jobs_queued"] == costs[1].scannedPageCount["jobs_queued"])
        // A changed row is looked up by its id, and its new version has an entry in the indexes of ids and of
        // tenants. With so many jobs these have one more level.
        #expect(costs[1].pageCount - costs[0].pageCount <= 3 * 50 + 5, "\(costs)")
    }

    /// 10,000 queued jobs, then so many waiting ones in the same claim queue.
    private static func queue(_ waitingCount: Int) -> String {
        """
        CREATE FUNCTION history_id(number bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
            SELECT (lpad(to_hex(number), 12, '0') || '70008' || lpad(to_hex(number), 15, '0'))::uuid
        $$;
        ALTER TABLE jobs SET (autovacuum_enabled = off);
        INSERT INTO nodes (id, started_at, heartbeat_at, running, draining, is_worker, name, version)
        VALUES (history_id(1), now(), now(), 0, false, true, 'node', '1');
        INSERT INTO claim_queues (id, tenant, session) VALUES (1, 'acme', 'default');
        INSERT INTO jobs (id, created_at, expires_at, urgency, queue, priority, kind, state, waiting_for,
            next_attempt_at, tenant, session, origin, spec)
        SELECT history_id(i), now(), now() + interval '1 day', now() + i * interval '1 second', 1, 0.5,
            'download', CASE WHEN i <= 10000 THEN 'queued' ELSE 'waiting' END::job_state,
            CASE WHEN i > 10000 THEN (enum_range(NULL::waiting_for))[1 + i % 8] END,
            CASE WHEN i > 10000 THEN now() END, 'acme', 'default', 'https://example.org:443', '{}'
        FROM generate_series(1, 10000 + \(waitingCount)) AS i;
        INSERT INTO dependency_outbox (job) SELECT id FROM jobs WHERE waiting_for = 'dependency';
        \(countRows("queued", 10_000)) \(countRows("waiting", waitingCount))
        ANALYZE
        """
    }
}

/// Shape of a plan: for the statement and each of its WITH queries, the tables that it changes and the
/// indexes through which it finds rows, in order. The shape leaves out how the plan combines them (loops,
/// sorts, memory) and the kind of an index scan.
struct PlanShape: Equatable, CustomStringConvertible {
    private var accesses: [String: [String]] = [:]

    init(_ root: JSON) {
        visit(root, "main")
        // The planner numbers subqueries as it likes.
        accesses["subqueries"]?.sort()
    }

    private init() {}

    var description: String {
        accesses.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.joined(separator: ", "))" }
            .joined(separator: "; ")
    }

    private mutating func visit(_ node: JSON, _ owner: String) {
        var owner = owner
        if let name = node["Subplan Name"]?.string { owner = name.hasPrefix("CTE ") ? name : "subqueries" }
        let type = node["Node Type"]?.string ?? ""
        let children = node["Plans"]?.array ?? []
        guard !type.hasSuffix("Append") else { return visitPartitions(children, owner) }
        if let access = Self.access(type, node) { accesses[owner, default: []].append(access) }
        for child in children { visit(child, owner) }
    }

    /// Counts equal branches once: partitions come and go.
    private mutating func visitPartitions(_ children: [JSON], _ owner: String) {
        var seen: [PlanShape] = []
        for child in children {
            var branch = PlanShape()
            branch.visit(child, owner)
            guard !seen.contains(branch) else { continue }
            seen.append(branch)
            accesses.merge(branch.accesses) { $0 + $1 }
        }
    }

    private static func access(_ type: String, _ node: JSON) -> String? {
        let relation = node["Relation Name"]?.string ?? ""
        let text: String? =
            switch type {
            case "ModifyTable": "\(node["Operation"]?.string ?? "") \(relation)"
            case "Seq Scan": "all of \(relation)"
            case "Index Scan", "Index Only Scan", "Bitmap Index Scan": node["Index Name"]?.string
            default: nil
            }
        return text?.replacing(/finished_jobs_([0-9a-f]{12}|rest)/, with: "finished_jobs")
    }
}

/// Sizes of tables and indexes.
struct RelationSizes {
    private var pageCounts: [String: Int] = [:]
    private var indexes: [String: [String]] = [:]

    init(_ connection: inout Connection) throws {
        let rows = try connection.execute(
            Statement(
                "relation_sizes",
                """
                SELECT c.relname::text, c.relpages, i.indrelid::regclass::text
                FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
                WHERE c.relnamespace = 'public'::regnamespace
                """))
        for row in 0..<rows.rowCount {
            let name = rows.text(row, 0)
            pageCounts[name] = Int(rows.int32(row, 1))
            if !rows.isNull(row, 2) { indexes[rows.text(row, 2), default: []].append(name) }
        }
    }

    func pageCount(of table: String) -> Int { pageCounts[table] ?? 10 }

    /// Levels of an index, if each of its pages names 100 others at least.
    func depth(of index: String) -> Int {
        var (depth, reach) = (1, 1)
        while reach < pageCounts[index] ?? 1 { (depth, reach) = (depth + 1, reach * 100) }
        return depth
    }

    /// Pages for a new row version: its entry in each index, and the page of the row with its map of free
    /// space.
    func changeCost(of table: String) -> Int {
        // Of the partitions the largest.
        let tables = indexes.keys.filter { $0 == table || $0.hasPrefix(table + "_") }
        let costs = tables.map { indexes[$0, default: []].reduce(0) { $0 + depth(of: $1) + 2 } }
        return (costs.max() ?? 0) + 5
    }
}

/// Pages and rows that an execution has read, and their maxima.
struct PlanCost {
    let pageCount: Int
    private(set) var pageCountMax = 0
    /// Rows returned or changed.
    private(set) var rowCount: Int
    /// Rows that the scans of each index have found.
    private(set) var scannedRowCount: [String: Int] = [:]
    /// Pages that they have touched.
    private(set) var scannedPageCount: [String: Int] = [:]
    /// Rows that scans have found in vain.
    private(set) var filteredRowCount = 0
    private(set) var scans: [String] = []

    init(_ root: JSON, _ sizes: RelationSizes, rowCountMin: Int) {
        pageCount = Self.pageCount(of: root)
        rowCount = max(1, rowCountMin, Self.rowCount(of: root))
        Self.visit(root) { node in
            if node["Node Type"]?.string == "ModifyTable" { rowCount = max(rowCount, Self.changeCount(node)) }
        }
        Self.visit(root) { add($0, sizes) }
    }

    private mutating func add(_ node: JSON, _ sizes: RelationSizes) {
        let relation = node["Relation Name"]?.string ?? ""
        let loops = Self.integer(node, "Actual Loops")
        switch node["Node Type"]?.string {
        case "ModifyTable":
            let count = Self.changeCount(node)
            // Three: a conflict may be looked for in vain.
            pageCountMax += count * sizes.changeCost(of: relation) + 3
            scans.append("\(relation) changed \(count)")
        case "Seq Scan":
            pageCountMax += loops * (sizes.pageCount(of: relation) + 2)
            scans.append("\(relation) whole \(loops)")
        case "Index Scan", "Index Only Scan", "Bitmap Index Scan":
            guard let index = node["Index Name"]?.string else { return }
            pageCountMax += rowCount * (sizes.depth(of: index) + 2)
            scannedRowCount[index, default: 0] += Self.rowCount(of: node)
            scannedPageCount[index, default: 0] += Self.pageCount(of: node)
            filteredRowCount += loops * Self.integer(node, "Rows Removed by Filter")
            scans.append("\(index) found \(Self.rowCount(of: node)) in \(loops)")
        default: break
        }
    }

    /// A value of a node, of newer servers with a fraction.
    private static func integer(_ node: JSON, _ key: String) -> Int { Int(node[key]?.double ?? 0) }

    private static func pageCount(of node: JSON) -> Int {
        integer(node, "Shared Hit Blocks") + integer(node, "Shared Read Blocks")
    }

    private static func rowCount(of node: JSON) -> Int {
        integer(node, "Actual Rows") * integer(node, "Actual Loops")
    }

    private static func changeCount(_ node: JSON) -> Int {
        (node["Plans"]?.array ?? []).filter { $0["Parent Relationship"]?.string == "Outer" }
            .reduce(0) { $0 + rowCount(of: $1) }
    }

    private static func visit(_ node: JSON, _ body: (JSON) -> Void) {
        body(node)
        for child in node["Plans"]?.array ?? [] { visit(child, body) }
    }
}
