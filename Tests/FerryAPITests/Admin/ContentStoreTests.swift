import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Content store for operators")
struct ContentStoreTests {
    /// A store whose database was restored until an operator accepts that.
    private final class Control: ContentStoreControl {
        private let restored = Mutex(true)

        private func status(_ isRestored: Bool) -> ContentStoreStatus {
            ContentStoreStatus(
                isAvailable: true, generation: isRestored ? 3 : 7, sweptAt: nil, isRestored: isRestored,
                removedCount: 5, missingCount: 1)
        }

        func status(reply: @escaping Reply<ContentStoreStatus>) {
            reply(.success(status(restored.withLock { $0 })))
        }

        func accept(reply: @escaping Reply<ContentStoreStatus?>) {
            let wasRestored = restored.withLock { restored in
                defer { restored = false }
                return restored
            }
            reply(.success(wasRestored ? status(false) : nil))
        }
    }

    private let path = "/v1/admin/content-store"

    @Test("without a bucket, contents are files, and nothing can be accepted")
    func files() throws {
        let fixture = Fixture()
        let shown = try fixture.send("GET", path)
        #expect(shown.status == 200 && shown.json["kind"] == "files")
        for name in ["available", "generation", "swept_at", "restored", "removed", "missing"] {
            #expect(shown.json[name] == .null, "\(name)")
        }
        let accepted = try fixture.send("POST", "\(path)/accept", "{}")
        #expect(accepted.status == 409 && accepted.code == "invalid_state")
    }

    @Test("an operator sees a restored database, and accepts it once")
    func bucket() throws {
        let fixture = Fixture(contentStore: Control())
        let wanted: JSON = [
            "kind": "bucket", "available": .bool(true), "generation": .integer(3), "swept_at": .null,
            "restored": .bool(true), "removed": .integer(5), "missing": .integer(1),
        ]
        #expect(try fixture.send("GET", path).json == wanted)
        #expect(try fixture.send("GET", path, key: fixture.clientKey).status == 403)
        #expect(try fixture.send("POST", "\(path)/accept", "{}", key: fixture.clientKey).status == 403)
        let accepted = try fixture.send("POST", "\(path)/accept", "{}")
        #expect(accepted.status == 200)
        #expect(accepted.json["restored"]?.bool == false && accepted.json["generation"]?.integer == 7)
        let again = try fixture.send("POST", "\(path)/accept")
        #expect(again.status == 409 && again.code == "invalid_state")
    }
}
