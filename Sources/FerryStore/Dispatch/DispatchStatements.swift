package import Postgres

extension Statements {
    package static let markRequests = make(
        "mark_requests", PackageResources.mark_requests_sql, parameters: 4)
    package static let takeOverUpload = make(
        "take_over_upload", PackageResources.take_over_upload_sql, parameters: 4)
}
