package import Postgres

extension Statements {
    package static let markRequests = make(
        "mark_requests", PackageResources.mark_requests_sql, parameters: 4)
}
