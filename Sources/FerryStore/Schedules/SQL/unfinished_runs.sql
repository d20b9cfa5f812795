-- Reads unfinished jobs of earlier occurrences, for schedules that due_schedules.sql has locked. A separate
-- statement, since its snapshot has to include jobs of the transaction that held those locks before. Locks
-- nothing.
-- $1 schedules, $2 maximum number of runs of each to look at. Returns schedules and jobs. Each job is looked
-- up by a subquery, which the planner cannot turn into a join.
SELECT s.id, r.job
FROM unnest($1::uuid[]) AS s(id) CROSS JOIN LATERAL (
    SELECT job FROM schedule_runs WHERE schedule = s.id ORDER BY scheduled_at DESC LIMIT $2::integer
) r
WHERE (SELECT j.id FROM jobs j WHERE j.id = r.job) IS NOT NULL
