import FerryCore
import Postgres
import Synchronization

/// Acknowledges results of finished jobs. Any thread.
struct Acknowledgements {
    let context: StoreContext
    let signals: StoreSignals

    init(_ context: StoreContext, _ signals: StoreSignals) {
        self.context = context
        self.signals = signals
    }

    /// Acknowledges jobs on `connection`. `wanted`: `JobSpec.wantedEvents`, or `nil` if the job still waits
    /// for its acknowledgement: its row has them.
    func add(
        _ jobs: [(id: JobID, wanted: Int32?)], _ connection: inout Connection
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.appendArray(.uuid, jobs) { $0.append($1.id) }
        parameters.appendArray(.int32, jobs) { $0.append(int32: $1.wanted) }
        parameters.append(context.clock.now())
        let done = try connection.execute(Statements.acknowledgeJobs, parameters)
        guard done.rowCount > 0 else { return }
        context.metrics.acknowledgedJobs.add(Int64(done.rowCount), ordering: .relaxed)
        signals.events.written(isWanted: true)
    }
}
