-- Reads which jobs of earlier occurrences are not over, of schedules that due_schedules.sql has locked. A
-- statement of its own: it has to see the jobs of whoever had those locked before. Locks nothing. $1
-- schedules, $2 how many runs of each are looked at. Returns the schedule and the job. Looked up by a
-- subquery, which no plan can make a join.
SELECT s.id, r.job
FROM unnest($1::uuid[]) AS s(id) CROSS JOIN LATERAL (
    SELECT job FROM schedule_runs WHERE schedule = s.id ORDER BY scheduled_at DESC LIMIT $2::integer
) r
WHERE (SELECT j.id FROM jobs j WHERE j.id = r.job) IS NOT NULL
