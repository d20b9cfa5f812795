package import Postgres

extension Statements {
    package static let allKeys = make("all_keys", PackageResources.all_keys_sql)
    package static let beginAudit = make("begin_audit", PackageResources.begin_audit_sql, parameters: 6)
    package static let changeDrain = make("change_drain", PackageResources.change_drain_sql, parameters: 2)
    package static let changePause = make("change_pause", PackageResources.change_pause_sql, parameters: 2)
    package static let createKey = make("create_key", PackageResources.create_key_sql, parameters: 12)
    package static let endAudit = make("end_audit", PackageResources.end_audit_sql, parameters: 3)
    package static let foldCounts = make("fold_counts", PackageResources.fold_counts_sql, parameters: 1)
    package static let listAudit = make("list_audit", PackageResources.list_audit_sql, parameters: 2)
    package static let listKeys = make("list_keys", PackageResources.list_keys_sql, parameters: 2)
    package static let readFirstKey = make(
        "read_first_key", PackageResources.read_first_key_sql, parameters: 2)
    package static let readKey = make("read_key", PackageResources.read_key_sql, parameters: 1)
    package static let readStatus = make("read_status", PackageResources.read_status_sql, parameters: 3)
    package static let removeOldAudit = make(
        "remove_old_audit", PackageResources.remove_old_audit_sql, parameters: 2)
    package static let revokeKey = make("revoke_key", PackageResources.revoke_key_sql, parameters: 1)
    package static let readNodes = make("read_nodes", PackageResources.read_nodes_sql, parameters: 1)
}
