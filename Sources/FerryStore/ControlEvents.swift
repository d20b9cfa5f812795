import FerryCore
import Postgres

extension ControlLane {
    /// Numbers what a job has said, so that nothing is lost when its row goes: events without a number still
    /// need it.
    static func numberEvents(
        of job: JobRecord, _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(text: job.tenant)
        parameters.append(job.id)
        while try connection.execute(Statements.hasUnnumberedEvents, parameters).bool(0, 0) {
            let outcome = try EventPass.commit(&connection, context)
            if outcome.deliveryCount > 0 { context.commitObserver?.deliveriesAdded(outcome.deliveryCount) }
        }
    }
}
