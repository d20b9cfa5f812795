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
            throw ClientFailure(.failed, "The service is not ready (status \(response.status)).")
        }
        if !client.json { try console.data(line: "ready") }
    }

    /// Returns the lines of `/readyz?verbose`, such as `[+]database ok`, as JSON.
    private func report(_ isReady: Bool, _ body: [UInt8]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("ready", isReady)
        writer.name("checks")
        writer.beginArray()
        for line in String(decoding: body, as: UTF8.self).split(separator: "\n") {
            // `warning`: the check fails but is not required.
            let states = ["[+]": "ok", "[-]": "failed", "[!]": "warning"]
            guard let state = states[String(line.prefix(3))] else { continue }
            writer.beginObject()
            writer.member("name", String(line.dropFirst(3).prefix { $0 != " " }))
            writer.member("state", state)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}
