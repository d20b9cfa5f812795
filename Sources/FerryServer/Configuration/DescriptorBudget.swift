import Glibc

/// What this node may have open at once, as far as the process's limit of open files allows
/// (RLIMIT_NOFILE, getrlimit(2)).
///
/// A transfer has a socket and a file, a client of the API a socket. Where there is not enough for all that
/// the configuration asks for there is less of everything: a transfer that finds no descriptor for its file
/// has fetched it for nothing, and one without a socket looks like a host that is away.
struct DescriptorBudget {
    /// Transfers at once.
    let transfers: Int
    /// Connections of the API at once.
    let clients: Int
    /// Idle connections to hosts.
    let keptConnections: Int
    /// Attempts beyond the transfers that reach nobody: a socket, or two while a name is looked up.
    let lentSlots: Int

    /// Database, files of the process, deliveries on their way.
    private static let others = 200

    init(limit: Int, transfers: Int, clients: Int, keptConnections: Int) {
        let isEnough = limit >= Self.others + clients + 2 * transfers
        let others = isEnough ? Self.others : min(Self.others, limit / 4)
        // Few clients keep as many connections as they may have; transfers come first.
        self.clients = isEnough ? clients : max(16, min(clients, limit / 4))
        let left = limit - others - self.clients
        // Socket, file, and a connection that is kept for the next one.
        self.transfers = isEnough ? transfers : min(transfers, max(1, left / 3))
        let rest = max(0, left - 2 * self.transfers)
        self.keptConnections = min(keptConnections, rest / 2)
        lentSlots = (rest - self.keptConnections) / 2
    }
}

/// Raises the limit of open files to what the system allows.
func raiseDescriptorLimit() -> Int {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    getrlimit(resource, &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(resource, &limit)
    getrlimit(resource, &limit)
    return Int(clamping: limit.rlim_cur)
}
