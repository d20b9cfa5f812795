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
        #expect(connections.isFirst(Self.own))
        // A macro cannot call what changes the value.
        let taken = [connections.take(Self.own), connections.take(Self.own)]
        #expect(taken == [true, false])
        let returnedInUse = connections.takeOwn()
        #expect(!returnedInUse)
        connections.put(Self.own)
        let returned = [connections.takeOwn(), connections.takeOwn()]
        #expect(returned == [true, false], "it is returned once")
        let takenAgain = connections.take(Self.own)
        #expect(!connections.isFirst(Self.own) && !takenAgain)
        #expect(connections.mayAsk(Self.own, now: 1))
        connections.note(asked: Self.own)
        #expect(!connections.mayAsk(Self.own, now: 1))
        connections.note(granted: Self.own)
        let (granted, sparesInUse) = (connections.take(Self.own), connections.takeSpares())
        #expect(granted && sparesInUse.isEmpty)
        connections.put(Self.own)
        let spares = connections.takeSpares()
        #expect(spares == [Self.own])
    }

    @Test("granted connections that no request uses are spares, also after the first one is returned")
    func spares() {
        var connections = AttemptConnections(own: Self.own)
        connections.note(granted: Self.own)
        connections.note(granted: Self.mirror)
        let taken = [connections.take(Self.own), connections.take(Self.mirror)]
        #expect(taken == [true, true])
        let first = connections.takeSpares()
        #expect(first == [Self.own], "the first one is enough for one request")
        connections.put(Self.own)
        connections.put(Self.mirror)
        let (isReturned, second) = (connections.takeOwn(), connections.takeSpares())
        #expect(isReturned && second == [Self.mirror])
        let (third, isTaken) = (connections.takeSpares(), connections.take(Self.mirror))
        #expect(third.isEmpty && !isTaken)
    }
}
