import TestThreads
import Testing

@testable import FerryStore

@Suite("Delay between relay passes", .onOwnThread)
struct RelayDelayTests {
    @Test("small passes follow each other at once, and a large one is followed by a pause")
    func delay() {
        var delay = RelayDelay()
        #expect(delay.earliest == 0)
        for now in 1...100 as ClosedRange<Int64> {
            delay.ended(now, eventCount: RelayDelay.fewEvents)
            #expect(delay.earliest == now)
        }
        delay.ended(200, eventCount: RelayDelay.fewEvents + 1)
        #expect(delay.earliest == 200 + RelayDelay.interval)
        delay.ended(300, eventCount: 0)
        #expect(delay.earliest == 300)
    }
}
