package import Postgres

extension Statements {
    package static let readOperations = make(
        "read_operations", PackageResources.read_operations_sql, parameters: 2)
}
