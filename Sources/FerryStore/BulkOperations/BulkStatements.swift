package import Postgres

extension Statements {
    package static let advanceBulkOperation = make(
        "advance_bulk_operation", PackageResources.advance_bulk_operation_sql, parameters: 8)
    package static let cancelBulkOperation = make(
        "cancel_bulk_operation", PackageResources.cancel_bulk_operation_sql, parameters: 3)
    package static let claimBulkOperation = make(
        "claim_bulk_operation", PackageResources.claim_bulk_operation_sql, parameters: 2)
    package static let createBulkOperation = make(
        "create_bulk_operation", PackageResources.create_bulk_operation_sql, parameters: 14)
    package static let listBulkOperations = make(
        "list_bulk_operations", PackageResources.list_bulk_operations_sql, parameters: 3)
    package static let lockRetries = make("lock_retries", PackageResources.lock_retries_sql, parameters: 1)
    package static let nextBulkOperation = make(
        "next_bulk_operation", PackageResources.next_bulk_operation_sql)
    package static let postponeBulkOperation = make(
        "postpone_bulk_operation", PackageResources.postpone_bulk_operation_sql, parameters: 2)
    package static let readBulkOperation = make(
        "read_bulk_operation", PackageResources.read_bulk_operation_sql, parameters: 2)
    package static let readRetrySources = make(
        "read_retry_sources", PackageResources.read_retry_sources_sql, parameters: 1)
    package static let removeOldBulkOperations = make(
        "remove_old_bulk_operations", PackageResources.remove_old_bulk_operations_sql, parameters: 2)
}
