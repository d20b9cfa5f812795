import FerryCore
import Testing

@Suite("Stored bytes of tenants")
struct StorageQuotasTests {
    private let quotas = TenantQuotas()
    private let jobs = (1...3).map { JobID(high: 0, low: $0) }

    init() {
        let limits = ["a": TenantLimits(storageByteCountMax: 100), "b": TenantLimits(jobCountMax: 1)]
        _ = quotas.apply(
            limits.mapValues { .init(limits: $0) }, reading: quotas.beginReading(), at: .distantPast)
    }

    @Test("bytes that an attempt reserves count until its result replaces them by those that are kept")
    func reserve() {
        #expect(quotas.storageTenants == ["a"])
        #expect(quotas.reserve(60, for: jobs[0], of: "a"))
        #expect(!quotas.reserve(41, for: jobs[1], of: "a") && quotas.reserve(40, for: jobs[1], of: "a"))
        #expect(quotas.reserve(30, for: jobs[0], of: "a"), "fewer bytes than are reserved for the job")
        #expect(!quotas.reserve(61, for: jobs[0], of: "a"))
        #expect(quotas.storageUsedUp("a") == 100)
        quotas.note(stored: 50, left: 0, by: jobs[0], of: "a")
        quotas.note(stored: 0, left: 10, by: jobs[1], of: "a")
        quotas.beginStorageReading()
        quotas.apply(stored: ["a": 50], finished: [])
        #expect(quotas.reserve(40, for: jobs[2], of: "a") && !quotas.reserve(41, for: jobs[2], of: "a"))
        for tenant in ["b", "c"] {
            #expect(quotas.reserve(.max, for: jobs[0], of: tenant) && quotas.storageUsedUp(tenant) == nil)
        }
    }

    @Test("a reading replaces the bytes added before it, and drops the reservations of finished jobs")
    func reading() {
        quotas.apply(stored: ["a": 70], finished: [])
        quotas.note(stored: 30, left: 0, by: jobs[0], of: "a")
        #expect(quotas.storageUsedUp("a") == 100)
        #expect(quotas.reserve(0, for: jobs[1], of: "a"))
        quotas.beginStorageReading()
        #expect(quotas.jobsOfStorageReading.isEmpty)
        quotas.apply(stored: ["a": 60], finished: [])
        #expect(quotas.reserve(40, for: jobs[1], of: "a"))
        quotas.beginStorageReading()
        quotas.note(stored: 5, left: 0, by: jobs[2], of: "a")
        #expect(Set(quotas.jobsOfStorageReading) == [jobs[1], jobs[2]])
        quotas.apply(stored: ["a": 60], finished: [jobs[1]])
        #expect(quotas.reserve(35, for: jobs[2], of: "a") && !quotas.reserve(36, for: jobs[2], of: "a"))
    }

    @Test("bytes of a job that ends during a reading count once", arguments: [false, true], [false, true])
    func endsMeanwhile(isSeen: Bool, isNotedLater: Bool) {
        quotas.beginStorageReading()
        #expect(quotas.reserve(60, for: jobs[0], of: "a"))
        if !isNotedLater { quotas.note(stored: 60, left: 0, by: jobs[0], of: "a") }
        #expect(quotas.jobsOfStorageReading == [jobs[0]])
        quotas.apply(stored: ["a": isSeen ? 60 : 0], finished: isSeen ? [jobs[0]] : [])
        #expect(quotas.reserve(40, for: jobs[1], of: "a") && !quotas.reserve(41, for: jobs[1], of: "a"))
        if isNotedLater { quotas.note(stored: 60, left: 0, by: jobs[0], of: "a") }
        #expect(quotas.storedByteCount(of: "a") == 60)
        #expect(quotas.reserve(40, for: jobs[1], of: "a") && !quotas.reserve(41, for: jobs[1], of: "a"))
        // A job that is repeated ends a second time, and counts again.
        quotas.note(stored: 10, left: 0, by: jobs[0], of: "a")
        #expect(quotas.storedByteCount(of: "a") == 70)
    }

    @Test("bytes that are stored before the first reading count, also if that began before them")
    func unread() {
        let upload = UploadID(high: 1, low: 1)
        #expect(quotas.storedByteCount(of: "a") == nil)
        quotas.beginStorageReading()
        #expect(quotas.reserve(80, for: upload, of: "a") == nil)
        quotas.note(added: 80, to: upload, of: "a")
        #expect(quotas.reserve(21, for: upload, of: "a") == 100)
        // The reading has not seen them.
        quotas.apply(stored: ["a": 0], finished: [])
        #expect(quotas.storedByteCount(of: "a") == 80)
        #expect(quotas.reserve(21, for: upload, of: "a") == 100 && !quotas.reserve(21, for: jobs[0], of: "a"))
        #expect(quotas.reserve(20, for: upload, of: "a") == nil)
    }
}
