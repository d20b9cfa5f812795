import FerryCore
import Testing

@Suite("End of a job's time")
struct JobExpiryTests {
    private let created = Timestamp(microseconds: 1_000_000_000)

    private func schedule(begin: Double?, timeout: Double, deadline: Double?) -> JobSpec.Schedule {
        var schedule = JobSpec.Schedule()
        schedule.earliestBeginAt = begin.map { created + $0 }
        schedule.timeoutForResource = timeout
        schedule.deadlineAt = deadline.map { created + $0 }
        return schedule
    }

    @Test(
        "timeout_for_resource counts from the later of the acceptance and earliest_begin_at",
        arguments: [(nil, 60.0), (-30.0, 60.0), (0.0, 60.0), (30.0, 90.0), (864_000.0, 864_060.0)])
    func resourceTimeout(begin: Double?, end: Double) {
        let schedule = schedule(begin: begin, timeout: 60, deadline: nil)
        #expect(schedule.resourceExpiry(createdAt: created) == created + end)
        #expect(schedule.expiry(createdAt: created) == created + end)
        #expect(schedule.overdueCode(createdAt: created) == .resourceTimeout)
    }

    @Test("the earlier of deadline_at and the end of timeout_for_resource ends a job, with its own code")
    func deadline() {
        let early = schedule(begin: 30, timeout: 60, deadline: 80)
        #expect(early.expiry(createdAt: created) == created + 80)
        #expect(early.overdueCode(createdAt: created) == .deadlineExceeded)
        #expect(early.resourceExpiry(createdAt: created) == created + 90)
        let late = schedule(begin: 30, timeout: 60, deadline: 100)
        #expect(late.expiry(createdAt: created) == created + 90)
        #expect(late.overdueCode(createdAt: created) == .resourceTimeout)
    }
}
