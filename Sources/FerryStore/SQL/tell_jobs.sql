-- Adds events of jobs that are not over to the outbox. Fenced: of a job whose attempt is another one by now
-- nothing is told. Locks: the sessions (in order of their names), then this connection's row of job_counts.
-- One array element an event: $1 jobs, $2 attempts, $3 deliveries, $4 events, $5 types, $6 URLs, $7 the jobs
-- as JSON, $8 when it happened. Returns the ids of the jobs that were told of.
WITH known AS (
    SELECT u.*, j.tenant, j.session, j.secrets, j.traceparent
    FROM unnest(
        $1::uuid[], $2::integer[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[],
        $8::timestamptz[]
    ) WITH ORDINALITY AS u(id, attempt, delivery, event, type, url, job_json, occurred_at, position)
    JOIN jobs j ON j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
), numbered AS (
    INSERT INTO sessions AS s (tenant, name, last_sequence)
    SELECT tenant, session, count(*) FROM known GROUP BY tenant, session ORDER BY tenant, session
    ON CONFLICT (tenant, name) DO UPDATE SET last_sequence = s.last_sequence + excluded.last_sequence
    RETURNING tenant, name, last_sequence
), told AS (
    INSERT INTO deliveries (
        id, event, job, sequence, occurred_at, next_try_at, type, tenant, session, url, job_json, secrets,
        traceparent)
    SELECT k.delivery, k.event, k.id, n.last_sequence - k.after, k.occurred_at, k.occurred_at, k.type,
        k.tenant, k.session, k.url, k.job_json, k.secrets, k.traceparent
    FROM (
        SELECT k.*, row_number() OVER (PARTITION BY k.tenant, k.session ORDER BY k.position DESC) - 1 AS after
        FROM known k
    ) k JOIN numbered n ON n.tenant = k.tenant AND n.name = k.session
), counted AS (
    INSERT INTO job_counts AS c (shard, deliveries_pending)
    SELECT current_setting('ferry.shard'), count(*) FROM known HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
)
SELECT id FROM known
