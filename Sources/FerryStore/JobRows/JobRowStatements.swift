package import Postgres

extension Statements {
    package static let changeJobs = make("change_jobs", PackageResources.change_jobs_sql, parameters: 23)
    package static let readEarlierSpecs = make(
        "read_earlier_specs", PackageResources.read_earlier_specs_sql, parameters: 2)
    package static let readJobs = make("read_jobs", PackageResources.read_jobs_sql, parameters: 2)
    package static let acknowledgeJobs = make(
        "acknowledge_jobs", PackageResources.acknowledge_jobs_sql, parameters: 3)
}
