package import Postgres

extension Statements {
    package static let countTenantJobs = make(
        "count_tenant_jobs", PackageResources.count_tenant_jobs_sql, parameters: 1)
    package static let countTransfers = make(
        "count_transfers", PackageResources.count_transfers_sql, parameters: 5)
    package static let endedJobs = make("ended_jobs", PackageResources.ended_jobs_sql, parameters: 1)
    package static let listTenantLimits = make("list_tenant_limits", PackageResources.list_tenant_limits_sql)
    package static let readTenantLimits = make(
        "read_tenant_limits", PackageResources.read_tenant_limits_sql, parameters: 1)
    package static let removeOldTransfers = make(
        "remove_old_transfers", PackageResources.remove_old_transfers_sql, parameters: 2)
    package static let replaceTenantLimits = make(
        "replace_tenant_limits", PackageResources.replace_tenant_limits_sql, parameters: 9)
    package static let sumStoredBytes = make(
        "sum_stored_bytes", PackageResources.sum_stored_bytes_sql, parameters: 1)
    package static let countTenants = make("count_tenants", PackageResources.count_tenants_sql)
}
