@testable import FerryStore

extension JobInsertion {
    /// The parts of a node without threads.
    convenience init(_ configuration: StoreConfiguration) {
        let context = StoreContext(configuration)
        let signals = StoreSignals(configuration.clock)
        let queueState = QueueState(context, signals, NodeState(configuration), HostState(configuration))
        self.init(
            queueState, SessionLoader(context: context, signals: signals),
            Admission(
                jobCountMax: configuration.jobCountMax, quotas: configuration.quotas,
                clock: configuration.clock), RecentResults())
    }
}
