package import Postgres

extension Statements {
    package static let checkLeases = make("check_leases", PackageResources.check_leases_sql, parameters: 2)
    package static let heartbeat = make("heartbeat", PackageResources.heartbeat_sql, parameters: 10)
    package static let lockHeartbeat = make(
        "lock_heartbeat", PackageResources.lock_heartbeat_sql, parameters: 1)
    package static let lockJobsOfDeadNodes = make(
        "lock_jobs_of_dead_nodes", PackageResources.lock_jobs_of_dead_nodes_sql, parameters: 4)
    package static let lockJobsOfNode = make(
        "lock_jobs_of_node", PackageResources.lock_jobs_of_node_sql, parameters: 1)
    package static let readHealth = make("read_health", PackageResources.read_health_sql)
    package static let readHeartbeats = make(
        "read_heartbeats", PackageResources.read_heartbeats_sql, parameters: 1)
    package static let readPeer = make("read_peer", PackageResources.read_peer_sql, parameters: 1)
    package static let removeFormerNodes = make(
        "remove_former_nodes", PackageResources.remove_former_nodes_sql, parameters: 1)
    package static let removeNode = make("remove_node", PackageResources.remove_node_sql, parameters: 1)
}
