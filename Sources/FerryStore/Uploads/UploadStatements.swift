package import Postgres

extension Statements {
    package static let createUpload = make(
        "create_upload", PackageResources.create_upload_sql, parameters: 13)
    package static let readUpload = make("read_upload", PackageResources.read_upload_sql, parameters: 2)
    package static let readNamedUpload = make(
        "read_named_upload", PackageResources.read_named_upload_sql, parameters: 2)
    package static let listUploads = make("list_uploads", PackageResources.list_uploads_sql, parameters: 8)
    package static let restartUpload = make(
        "restart_upload", PackageResources.restart_upload_sql, parameters: 9)
    package static let advanceUpload = make(
        "advance_upload", PackageResources.advance_upload_sql, parameters: 4)
    package static let completeUpload = make(
        "complete_upload", PackageResources.complete_upload_sql, parameters: 4)
    package static let deleteUpload = make("delete_upload", PackageResources.delete_upload_sql, parameters: 3)
    package static let prepareUploads = make(
        "prepare_uploads", PackageResources.prepare_uploads_sql, parameters: 3)
    package static let removeExpiredUploads = make(
        "remove_expired_uploads", PackageResources.remove_expired_uploads_sql, parameters: 3)
    package static let listLocalUploads = make(
        "list_local_uploads", PackageResources.list_local_uploads_sql, parameters: 4)
    package static let moveUpload = make("move_upload", PackageResources.move_upload_sql, parameters: 2)
    package static let knownUploads = make("known_uploads", PackageResources.known_uploads_sql, parameters: 1)
}
