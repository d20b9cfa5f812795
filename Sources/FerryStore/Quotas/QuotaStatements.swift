package import Postgres

extension Statements {
    package static let listTenantLimits = make("list_tenant_limits", PackageResources.list_tenant_limits_sql)
    package static let readTenantLimits = make(
        "read_tenant_limits", PackageResources.read_tenant_limits_sql, parameters: 1)
    package static let replaceTenantLimits = make(
        "replace_tenant_limits", PackageResources.replace_tenant_limits_sql, parameters: 9)
}
