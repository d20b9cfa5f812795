import FerryCore

@testable import FerryEngine

extension FollowableContent {
    /// Of a job without followers.
    static var alone: FollowableContent {
        FollowableContent(
            job: JobID(high: 1, low: 1), progress: ProgressMeter(), followers: FollowedJobs())
    }
}
