import FerryCore
import FerryScheduler

extension QueueView {
    /// Plans the claim of up to `count` jobs. Blocks the claim queues of tenants whose bytes of the day are
    /// used up until the day ends; a scan unblocks them for a look.
    mutating func plan(_ count: Int) -> [ClaimSchedule.Request] {
        guard count > 0 else { return [] }
        let (quotas, now) = (queueState.context.configuration.quotas, queueState.context.clock.now())
        while true {
            let requests = schedule.plan(count)
            var allowed: [ClaimSchedule.Request] = []
            for request in requests {
                guard let until = quotas.usedUpUntil(request.queue.tenant, at: now) else {
                    allowed.append(request)
                    continue
                }
                schedule.settle(request, claimed: 0, .blocked(until: until))
            }
            // Each turn without a request blocks at least one claim queue.
            if !allowed.isEmpty || requests.isEmpty { return allowed }
        }
    }
}
