import Curl
import FerryCore

/// The generation of the content store: a number that the database and the store have, and that each sweep
/// raises in both. If the store's is higher, the database was set back to an earlier state, and may not name
/// contents that it should.
package enum ContentGeneration {
    /// Key of the object with the number.
    static let key = "generation"

    /// Returns the number in the store; 0 if the store has none. Blocks.
    static func read(_ client: ContentClient, _ stop: StopSignal) throws(ContentClient.Failure) -> Int64 {
        let body: [UInt8]
        do throws(ContentClient.Failure) {
            body = try client.send(.init("GET", key), stop).body
        } catch {
            if case .missing = error { return 0 }
            throw error
        }
        guard let number = Int64(trimmed(String(decoding: body, as: UTF8.self))), number >= 0 else {
            throw .unavailable("its object \(key) is no number")
        }
        return number
    }

    /// Writes the number to the store. Blocks.
    static func write(
        _ generation: Int64, _ client: ContentClient, _ stop: StopSignal
    ) throws(ContentClient.Failure) {
        var request = ContentClient.Request("PUT", key)
        request.body = Array("\(generation)\n".utf8)
        _ = try client.send(request, stop)
    }
}
