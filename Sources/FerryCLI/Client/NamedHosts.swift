import FerryCore

/// Hosts that an operator may mean by a name.
struct NamedHosts {
    private let name: String
    private let service: ServiceClient
    /// Origins of that name in the list of hosts.
    let listed: [String]

    /// `name`: an origin, or a name with or without a port.
    init(_ name: String, _ service: ServiceClient) throws(ClientFailure) {
        self.name = name
        self.service = service
        let origins = try Listing("/v1/admin/hosts", of: service).entries.compactMap { $0["host"]?.string }
        listed = origins.filter { Self.means(name, $0) }
    }

    /// Returns the host that the name means. Without a listed one, those of unfinished jobs count. Asks which
    /// one, if there are several; throws if there is no terminal. Warns if the host is unknown.
    func chosen() throws(ClientFailure) -> String {
        let known = listed.isEmpty ? try hostsOfJobs() : listed
        if known.count == 1 { return known[0] }
        guard known.isEmpty else { return try answer(known) }
        let origin = HostReference(name)?.origin ?? name
        Console.current.message(
            "Warning: \(origin) is not listed, and no unfinished job of yours uses it. Check the name.")
        return origin
    }

    private static func means(_ name: String, _ origin: String) -> Bool {
        guard let meant = HostReference(name), let known = HostReference(origin) else { return false }
        return known.host == meant.host && (meant.port == nil || known.port == meant.port)
            && (meant.scheme == nil || known.scheme == meant.scheme)
    }

    private func hostsOfJobs() throws(ClientFailure) -> [String] {
        guard let meant = HostReference(name) else { return [] }
        let states = JobState.allCases.filter { !$0.isTerminal }.map(\.rawValue).joined(separator: ",")
        let host = percentEncoded(meant.scheme == nil ? name : meant.origin)
        let summary = try service.send("GET", "/v1/jobs/summary?by=host&host=\(host)&state=\(states)")
        return (summary.json["data"]?.array ?? []).compactMap { $0["value"]?.string }.sorted()
    }

    private func answer(_ origins: [String]) throws(ClientFailure) -> String {
        let console = Console.current
        let ambiguous = ClientFailure(
            .usage, "\(name) means several hosts: \(origins.joined(separator: ", ")). Give one of them.")
        guard console.errIsTerminal else { throw ambiguous }
        for (index, origin) in origins.enumerated() { console.message("\(index + 1)  \(origin)") }
        console.err("Number of the host: ")
        guard let number = console.answer().flatMap({ Int($0) }), origins.indices.contains(number - 1) else {
            throw ambiguous
        }
        return origins[number - 1]
    }
}
