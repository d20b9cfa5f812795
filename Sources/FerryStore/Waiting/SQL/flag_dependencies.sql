-- Marks jobs that others are to depend on, so that their end is told to those (finish_jobs.sql). Waits for
-- nobody: locks the rows that nobody else has locked. $1 ids, $2 tenant. Returns the ids that the tenant has,
-- finished or not, and whether each is marked or finished; of the others: ask again.
WITH flagged AS (
    UPDATE jobs SET has_dependents = true
    WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE id = ANY ($1::uuid[]) AND tenant = $2::text AND NOT has_dependents
        FOR UPDATE SKIP LOCKED))
    RETURNING id
)
SELECT j.id, j.has_dependents OR EXISTS (SELECT FROM flagged f WHERE f.id = j.id)
FROM jobs j WHERE j.id = ANY ($1::uuid[]) AND j.tenant = $2::text
UNION ALL
SELECT f.id, true FROM finished_jobs f WHERE f.id = ANY ($1::uuid[]) AND f.tenant = $2::text
