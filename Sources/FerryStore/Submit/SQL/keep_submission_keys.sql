-- Writes the idempotency keys of submissions with unique jobs, whose new jobs the same transaction inserts
-- with submit_jobs.sql. Locks: the keys (waits for a transaction that inserts the same one).
-- One array element for each submission: $1 its number, $2 tenants, $3 routes, $4 keys, $5 fingerprints, $6
-- the column `existing`. One for each job of these submissions, new or not, in their order: $7 its
-- submission, $8 ids, $9 states, $10 begin dates or null. $11 this node, $12 now.
-- Returns the numbers of the submissions whose key is new.
WITH k AS (
    SELECT * FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[])
        AS k(submission, tenant, route, key, fingerprint, existing)
), fresh AS (
    INSERT INTO idempotency_keys (
        tenant, route, key, fingerprint, existing, job_ids, states, next_attempts_at, node, created_at)
    SELECT k.tenant, k.route, k.key, k.fingerprint, k.existing, j.ids, j.states, j.begins_at, $11::uuid,
        $12::timestamptz
    FROM k JOIN (
        SELECT submission, array_agg(id ORDER BY position) AS ids,
            array_agg(state ORDER BY position) AS states,
            array_agg(begin_at ORDER BY position) AS begins_at
        FROM unnest($7::integer[], $8::uuid[], $9::text[], $10::timestamptz[]) WITH ORDINALITY
            AS u(submission, id, state, begin_at, position)
        GROUP BY submission
    ) j ON j.submission = k.submission
    ORDER BY k.tenant, k.key
    ON CONFLICT DO NOTHING
    RETURNING tenant, key
)
SELECT k.submission FROM k JOIN fresh f ON f.tenant = k.tenant AND f.key = k.key
