import FerryCore
import Testing

@Suite("Quotas of tenants")
struct TenantQuotasTests {
    private let quotas = TenantQuotas()
    /// 2026-11-28T12:00:00Z
    private let noon = Timestamp(microseconds: 1_795_867_200_000_000)
    private var midnight: Timestamp { noon + 43_200 }

    private func read(_ byteCount: Int64, at now: Timestamp, _ reading: Int? = nil) -> Bool {
        quotas.apply(
            ["a": .init(limits: TenantLimits(bytesPerDay: 100), transferredByteCount: byteCount)],
            reading: reading ?? quotas.beginReading(), at: now)
    }

    @Test("a tenant that has used up its bytes waits until midnight (UTC), and has none of them used then")
    func day() {
        #expect(quotas.usedUpUntil("a", at: noon) == nil && !quotas.countsTransfers(of: "a"))
        #expect(read(99, at: noon))
        #expect(quotas.usedUpUntil("a", at: noon) == nil && quotas.countsTransfers(of: "a"))
        quotas.note(ended: 1, of: "a")
        #expect(quotas.usedUpUntil("a", at: noon) == midnight)
        quotas.note(committed: 1, of: "a", at: noon)
        #expect(quotas.usedUpUntil("a", at: midnight + -0.000_001) == midnight)
        #expect(quotas.usedUpUntil("a", at: midnight) == nil)
        quotas.note(committed: 100, of: "a", at: midnight)
        #expect(quotas.usedUpUntil("a", at: midnight) == midnight + 86_400)
        #expect(quotas.usedUpUntil("b", at: noon) == nil)
    }

    @Test("bytes that are committed while a reading is under way are not lost with it")
    func overlapping() {
        _ = read(0, at: noon)
        let reading = quotas.beginReading()
        quotas.note(committed: 60, of: "a", at: noon)
        #expect(!read(40, at: noon, reading), "the limits are the same")
        #expect(quotas.usedUpUntil("a", at: noon) == midnight)
        _ = read(40, at: noon)
        #expect(quotas.usedUpUntil("a", at: noon) == nil)
    }

    @Test("an earlier reading that is answered later changes nothing; limits that are gone do not apply")
    func order() {
        let early = quotas.beginReading()
        _ = read(100, at: noon)
        #expect(!read(0, at: noon, early))
        #expect(quotas.usedUpUntil("a", at: noon) == midnight)
        #expect(quotas.apply([:], reading: quotas.beginReading(), at: noon))
        #expect(quotas.usedUpUntil("a", at: noon) == nil && quotas.limits(of: "a") == nil)
    }

    @Test("the bytes of a log are those of all its transactions, dropped ones included")
    func log() {
        var log = TransactionLog()
        for _ in 0..<(Limits.transactionCountMax + 5) {
            var one = TransactionMetrics(fetchStart: 0)
            one.byteCounts.requestBody = 3
            one.byteCounts.responseBody = 4
            one.byteCounts.decodedBody = 90
            one.byteCounts.requestHeader = 70
            log.append(one)
        }
        #expect(log.omittedCount == 5)
        #expect(log.bodyByteCount == 7 * Int64(Limits.transactionCountMax + 5))
    }
}
