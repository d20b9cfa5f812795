package import ArgumentParser
import FerryCore

/// `ferry healthcheck`: for containers and load balancers.
package struct Healthcheck: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Checks if the service is ready.",
        discussion:
            "Exit status: 0 if it is ready, 1 if it is not, 3 if it cannot be reached. Needs no key.")
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        let console = Console.current
        let path = client.json ? "/readyz?verbose" : "/readyz"
        let response = try client.service().perform("GET", path)
        let isReady = response.status == 200
        if client.json { try console.data(json: report(isReady, response.body)) }
        guard isReady else {
            let failed = checks(response.body).filter { $0.state == "failed" }.map(\.name)
            let names = failed.isEmpty ? "" : " Failed: \(failed.joined(separator: ", "))."
            throw ClientFailure(.failed, "The service is not ready (status \(response.status)).\(names)")
        }
        if !client.json { try console.data(line: "ready") }
    }

    /// Returns the checks that the lines of `/readyz` name, such as `[+]database ok`.
    private func checks(_ body: [UInt8]) -> [(name: String, state: String)] {
        // `warning`: the check fails but is not required.
        let states = ["[+]": "ok", "[-]": "failed", "[!]": "warning"]
        return String(decoding: body, as: UTF8.self).split(separator: "\n").compactMap { line in
            guard let state = states[String(line.prefix(3))] else { return nil }
            return (String(line.dropFirst(3).prefix { $0 != " " }), state)
        }
    }

    private func report(_ isReady: Bool, _ body: [UInt8]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("ready", isReady)
        writer.name("checks")
        writer.beginArray()
        for check in checks(body) {
            writer.beginObject()
            writer.member("name", check.name)
            writer.member("state", check.state)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}
