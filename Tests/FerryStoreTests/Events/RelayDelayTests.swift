import Testing

@testable import FerryStore

@Suite("The pace of the relay")
struct RelayPaceTests {
    @Test("passes that find little follow each other at once, those that find much take their time")
    func pace() {
        var pace = RelayDelay()
        #expect(pace.earliest == 0)
        for now in 1...100 as ClosedRange<Int64> {
            pace.ended(now, eventCount: RelayDelay.fewEvents)
            #expect(pace.earliest == now)
        }
        pace.ended(200, eventCount: RelayDelay.fewEvents + 1)
        #expect(pace.earliest == 200 + RelayDelay.interval)
        pace.ended(300, eventCount: 0)
        #expect(pace.earliest == 300)
    }
}
