-- Removes finished jobs whose retention is over, with their earlier specs and their accepted and given up
-- deliveries. Pending deliveries stay and are sent: they do not need the job.
-- Locks: the jobs, skipping those that another transaction has locked, their earlier specs and deliveries.
-- $1 ids, $2 end of the retention: only jobs that ended before. Returns the ids of the removed jobs.
WITH old AS (
    SELECT f.id FROM unnest($1::uuid[]) AS u(id) JOIN finished_jobs f ON f.id = ANY (ARRAY[u.id])
    WHERE greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $2::timestamptz
        AND (SELECT true FROM unacknowledged_jobs h WHERE h.job = f.id) IS NULL
    FOR UPDATE OF f SKIP LOCKED
), gone AS (
    DELETE FROM finished_jobs j USING old WHERE j.id = ANY (ARRAY[old.id]) RETURNING j.id
), earlier AS (
    DELETE FROM earlier_specs s USING gone g WHERE s.job = ANY (ARRAY[g.id])
), told AS (
    DELETE FROM deliveries d USING gone g WHERE d.job = ANY (ARRAY[g.id]) AND d.state <> 'pending'
    RETURNING d.id
), tries AS (
    DELETE FROM delivery_tries t USING told d WHERE t.delivery = ANY (ARRAY[d.id])
)
SELECT id FROM gone
