import FerryCore
import Testing

@testable import FerryEngine

@Suite("Connections of an attempt by scope")
struct AttemptConnectionsTests {
    private static let own = RequestScope(tenant: "acme", origin: "https://own.example:443", path: "/")
    private static let mirror = RequestScope(tenant: "acme", origin: "https://mirror.example:443", path: "/")

    @Test("the first connection is returned when no request uses it, and is granted again like others")
    func own() {
        var connections = AttemptConnections(own: Self.own)
        #expect(connections.isFirst(Self.own) && connections.take(Self.own) && !connections.take(Self.own))
        #expect(connections.takeOwn() == false, "it is in use")
        connections.put(Self.own)
        #expect(connections.takeOwn() && !connections.takeOwn(), "it is returned once")
        #expect(!connections.isFirst(Self.own) && !connections.take(Self.own))
        #expect(connections.mayAsk(Self.own, now: 1))
        connections.note(asked: Self.own)
        #expect(!connections.mayAsk(Self.own, now: 1))
        connections.note(granted: Self.own)
        #expect(connections.take(Self.own) && connections.takeSpares().isEmpty)
        connections.put(Self.own)
        #expect(connections.takeSpares() == [Self.own])
    }

    @Test("granted connections that no request uses are spares, also after the first one is returned")
    func spares() {
        var connections = AttemptConnections(own: Self.own)
        connections.note(granted: Self.own)
        connections.note(granted: Self.mirror)
        #expect(connections.take(Self.own) && connections.take(Self.mirror))
        #expect(Set(connections.takeSpares()) == [Self.own], "the first one is enough for one request")
        connections.put(Self.own)
        connections.put(Self.mirror)
        #expect(connections.takeOwn() && connections.takeSpares() == [Self.mirror])
        #expect(connections.takeSpares().isEmpty && !connections.take(Self.mirror))
    }
}
