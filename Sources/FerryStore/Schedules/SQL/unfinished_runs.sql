-- Reads unfinished jobs of earlier occurrences, for schedules that due_schedules.sql has locked. A separate
-- statement, since its snapshot has to include jobs of the transaction that held those locks before. Locks
-- nothing.
-- $1 schedules, $2 number of jobs of each to look at; if its last run has more, at all of that run. Returns
-- schedules and jobs. Each job is looked up by a subquery, which the planner cannot turn into a join.
SELECT s.id, r.job
FROM unnest($1::uuid[]) AS s(id) CROSS JOIN LATERAL (
    (
        SELECT job FROM schedule_runs WHERE schedule = s.id
        ORDER BY scheduled_at DESC, place DESC LIMIT $2::integer
    )
    UNION ALL
    (
        -- The other jobs of the last run: its last ones are among those above.
        SELECT job FROM schedule_runs
        WHERE schedule = s.id AND scheduled_at = (
            SELECT l.scheduled_at FROM schedule_runs l WHERE l.schedule = s.id
            ORDER BY l.scheduled_at DESC LIMIT 1)
        ORDER BY scheduled_at DESC, place DESC OFFSET $2::integer
    )
) r
WHERE (SELECT j.id FROM jobs j WHERE j.id = r.job) IS NOT NULL
