import FerryCore
import Postgres

extension Parameters {
    /// The parameters of add_dependencies.sql.
    static func dependencies(_ submissions: [Submission]) -> Parameters {
        let jobs = submissions.flatMap(\.jobs)
        let dependents = jobs.filter { !$0.spec.schedule.dependencies.isEmpty }
        let pairs = dependents.flatMap { job in job.spec.schedule.dependsOn.map { (job.id, $0) } }
        let groups = dependents.flatMap { job in
            job.spec.schedule.groupsOfDependencies.map { (job.id, job.tenant, $0) }
        }
        let uploads = dependents.flatMap { job in
            job.spec.schedule.uploadsOfDependencies.map { (job.id, $0) }
        }
        let own = Set(jobs.map(\.id))
        var parameters = Parameters(capacity: (pairs.count + groups.count) * 48)
        parameters.appendArray(.uuid, pairs) { $0.append($1.0) }
        parameters.appendArray(.uuid, pairs) { $0.append($1.1) }
        parameters.appendArray(.uuid, Array(Set(pairs.map(\.1)).intersection(own))) { $0.append($1) }
        parameters.appendArray(.uuid, groups) { $0.append($1.0) }
        parameters.appendArray(.text, groups) { $0.append(text: $1.1) }
        parameters.appendArray(.text, groups) { $0.append(text: $1.2) }
        parameters.appendArray(.uuid, uploads) { $0.append($1.0) }
        parameters.appendArray(.uuid, uploads) { $0.append($1.1) }
        return parameters
    }

    /// The parameters of add_upload_jobs.sql.
    static func uploadJobs(_ submissions: [Submission]) -> Parameters {
        let pairs = submissions.flatMap(\.jobs).flatMap { job in
            job.spec.sourceUploadIDs.map { ($0, job.id) }
        }
        var parameters = Parameters(capacity: pairs.count * 40)
        parameters.appendArray(.uuid, pairs) { $0.append($1.0) }
        parameters.appendArray(.uuid, pairs) { $0.append($1.1) }
        return parameters
    }
}
