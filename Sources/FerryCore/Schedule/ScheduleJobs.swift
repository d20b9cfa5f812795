/// The jobs of each run of a schedule, as templates: their texts may have placeholders.
public struct ScheduleJobs: Sendable {
    /// Rules of a list of jobs, which are accepted or skipped together.
    public struct List: Sendable, Equatable {
        /// Group of the jobs that name none; may have placeholders. `nil` for none.
        public var group: String?
        /// `true` if each run closes `group` with its jobs.
        public var closesGroup: Bool

        /// Creates the rules of a list.
        public init(group: String? = nil, closesGroup: Bool = false) {
            self.group = group
            self.closesGroup = closesGroup
        }

        /// Returns the name of the group that a run closes, or `nil`. The group has a valid name in each run
        /// if it had one in the sample run.
        public func closedGroup(at instant: Timestamp, _ zone: TimeZoneRules) -> String? {
            guard closesGroup, let group else { return nil }
            return ScheduledText.expanded(group, at: instant, zone)
        }
    }

    /// The jobs, in the order of the list.
    public let requests: [JobRequest]
    /// Rules of the list, or `nil` if the schedule has one `job`.
    public let list: List?

    /// Creates the job of a schedule with `job`.
    public init(_ job: JobRequest) {
        requests = [job]
        list = nil
    }

    /// Creates the jobs of a schedule with `jobs`.
    public init(_ jobs: [JobRequest], _ list: List) {
        requests = jobs
        self.list = list
    }
}
