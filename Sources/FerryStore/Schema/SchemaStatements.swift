package import Postgres

extension Statements {
    package static let checkRows = make("check_rows", PackageResources.check_rows_sql)
    package static let freeSessionCount = make("free_session_count", PackageResources.free_session_count_sql)
}
