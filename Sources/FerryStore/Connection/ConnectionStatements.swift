package import Postgres

extension Statements {
    package static let notify = make("notify", PackageResources.notify_sql, parameters: 1)
    package static let setShard = make("set_shard", PackageResources.set_shard_sql, parameters: 1)
    package static let tryLock = make("try_lock", PackageResources.try_lock_sql, parameters: 1)
    package static let waitForLock = make("wait_for_lock", PackageResources.wait_for_lock_sql, parameters: 1)
}
