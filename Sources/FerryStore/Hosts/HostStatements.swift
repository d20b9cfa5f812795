package import Postgres

extension Statements {
    package static let countHostJobs = make(
        "count_host_jobs", PackageResources.count_host_jobs_sql, parameters: 3)
    package static let createHosts = make("create_hosts", PackageResources.create_hosts_sql, parameters: 2)
    package static let forgetHosts = make("forget_hosts", PackageResources.forget_hosts_sql, parameters: 1)
    package static let grantConnections = make(
        "grant_connections", PackageResources.grant_connections_sql, parameters: 8)
    package static let keepDecisions = make(
        "keep_decisions", PackageResources.keep_decisions_sql, parameters: 3)
    package static let listHosts = make("list_hosts", PackageResources.list_hosts_sql, parameters: 3)
    package static let loadHosts = make("load_hosts", PackageResources.load_hosts_sql, parameters: 1)
    package static let lockHosts = make("lock_hosts", PackageResources.lock_hosts_sql, parameters: 4)
    package static let putThroughputs = make(
        "put_throughputs", PackageResources.put_throughputs_sql, parameters: 3)
    package static let readHost = make("read_host", PackageResources.read_host_sql, parameters: 2)
    package static let readHostLimits = make(
        "read_host_limits", PackageResources.read_host_limits_sql, parameters: 2)
    package static let readPermits = make("read_permits", PackageResources.read_permits_sql, parameters: 5)
    package static let readThroughputs = make(
        "read_throughputs", PackageResources.read_throughputs_sql, parameters: 1)
    package static let lockWaitingJobs = make(
        "lock_waiting_jobs", PackageResources.lock_waiting_jobs_sql, parameters: 2)
    package static let removeOldThroughputs = make(
        "remove_old_throughputs", PackageResources.remove_old_throughputs_sql, parameters: 2)
    package static let returnPermits = make(
        "return_permits", PackageResources.return_permits_sql, parameters: 1)
    package static let saveHostLimits = make(
        "save_host_limits", PackageResources.save_host_limits_sql, parameters: 7)
    package static let saveHosts = make("save_hosts", PackageResources.save_hosts_sql, parameters: 6)
    package static let strandedHosts = make(
        "stranded_hosts", PackageResources.stranded_hosts_sql, parameters: 1)
    package static let sweepConnections = make(
        "sweep_connections", PackageResources.sweep_connections_sql, parameters: 1)
    package static let takePermits = make("take_permits", PackageResources.take_permits_sql, parameters: 2)
    package static let tellHosts = make("tell_hosts", PackageResources.tell_hosts_sql, parameters: 2)
    package static let writeConnections = make(
        "write_connections", PackageResources.write_connections_sql, parameters: 7)
}
