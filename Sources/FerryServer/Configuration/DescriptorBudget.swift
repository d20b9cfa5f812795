import FerryCore
import Glibc

/// Numbers of transfers and connections that may be open at once, within the process's limit of open files
/// (RLIMIT_NOFILE, getrlimit(2)).
///
/// A transfer needs a socket and a file, a client of the API a socket. If the limit is too low for the
/// configured numbers, all numbers are reduced. Otherwise a transfer without a descriptor for its file would
/// download for nothing, and one without a socket would look like an unreachable host.
struct DescriptorBudget {
    /// Transfers at the same time.
    let transfers: Int
    /// Connections of the API at the same time.
    let clients: Int
    /// Idle connections to hosts.
    let keptConnections: Int
    /// Attempts beyond `transfers` that wait for an unreachable host: each needs one socket, or two during
    /// name resolution.
    let lentSlots: Int

    /// Descriptors of the database, of the process's own files and of webhook deliveries.
    private static let others = 200

    init(limit: Int, transfers: Int, clients: Int, keptConnections: Int) {
        // Requests to other nodes, on behalf of clients.
        let all = Self.others + Limits.nodeRequestCountMax
        let isEnough = limit >= all + clients + 2 * transfers
        let others = isEnough ? all : min(Self.others, limit / 4)
        // Few clients use all their connections, so transfers come first.
        self.clients = isEnough ? clients : max(16, min(clients, limit / 4))
        let left = limit - others - self.clients
        // A socket, a file, and an idle connection for the next transfer.
        self.transfers = isEnough ? transfers : min(transfers, max(1, left / 3))
        let rest = max(0, left - 2 * self.transfers)
        self.keptConnections = min(keptConnections, rest / 2)
        lentSlots = (rest - self.keptConnections) / 2
    }
}

/// Raises the limit of open files to the hard limit and returns it.
func raiseDescriptorLimit() -> Int {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    getrlimit(resource, &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(resource, &limit)
    getrlimit(resource, &limit)
    return Int(clamping: limit.rlim_cur)
}
