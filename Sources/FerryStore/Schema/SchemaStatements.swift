package import Postgres

extension Statements {
    package static let freeSessionCount = make("free_session_count", PackageResources.free_session_count_sql)
}
