import Postgres

extension ConnectionOptions {
    /// Makes the planner use indexes that have the order of the statement. Plans are made once, perhaps while
    /// tables are nearly empty, and any other plan is wrong later. Bitmap scans stay allowed: an index on
    /// arrays has no other scan.
    mutating func readInOrderOfIndexes() {
        settings.append(.init("plan_cache_mode", "force_generic_plan"))
        for kind in ["seqscan", "sort", "incremental_sort", "hashjoin", "mergejoin"] {
            settings.append(.init("enable_\(kind)", "off"))
        }
    }
}
