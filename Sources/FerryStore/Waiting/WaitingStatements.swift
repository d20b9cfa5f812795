package import Postgres

extension Statements {
    package static let discretionaryJobs = make(
        "discretionary_jobs", PackageResources.discretionary_jobs_sql, parameters: 4)
    package static let dueBegins = make("due_begins", PackageResources.due_begins_sql, parameters: 1)
    package static let dueQuestions = make("due_questions", PackageResources.due_questions_sql, parameters: 1)
    package static let flagDependencies = make(
        "flag_dependencies", PackageResources.flag_dependencies_sql, parameters: 2)
    package static let hasDependencyWork = make(
        "has_dependency_work", PackageResources.has_dependency_work_sql)
    package static let hasDueQuestions = make("has_due_questions", PackageResources.has_due_questions_sql)
    package static let lockDependents = make(
        "lock_dependents", PackageResources.lock_dependents_sql, parameters: 1)
    package static let lockFreeDependents = make(
        "lock_free_dependents", PackageResources.lock_free_dependents_sql, parameters: 1)
    package static let resolveDependencies = make(
        "resolve_dependencies", PackageResources.resolve_dependencies_sql, parameters: 2)
    package static let editSpec = make("edit_spec", PackageResources.edit_spec_sql, parameters: 17)
}
