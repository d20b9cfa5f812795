-- Reads a page of a tenant's finished jobs that wait for their acknowledgement, newest first; without bodies,
-- payloads and secrets. Locks nothing. Parameters and columns as in list_jobs.sql.
SELECT j.id, j.tenant, j.state, NULL, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, NULL, NULL, false, j.retry_of, j.spec, NULL,
    NULL, j.error, j.origin, j.traceparent, j.finished_at,
    j.response, j.result, NULL, j.resume_data, false, NULL, NULL, j.acknowledged_at,
    CASE WHEN j.resume_data IS NOT NULL THEN kept_attempt(array_append(j.attempts, j.last_attempt)) END,
    NULL, NULL
FROM unacknowledged_jobs u JOIN finished_jobs j ON j.id = ANY (ARRAY[u.job])
WHERE u.tenant = $1::text AND u.job < $2::uuid
    AND ($13::uuid IS NULL OR u.job >= (SELECT $13::uuid))
    AND ($3::text IS NULL OR j.session = $3::text)
    AND ($4::text[] IS NULL OR j.state = ANY (($4::text[] || $11::text[])::job_state[]))
    AND ($5::text IS NULL OR j.kind = $5::text::job_kind)
    AND ($6::text IS NULL OR substring(j.origin from '^[^/]*//(.*?)(?::[0-9]+)?$') = $6::text)
    AND ($12::text[] IS NULL OR j.origin = ANY ($12::text[]))
    AND ($7::timestamptz IS NULL OR j.created_at > $7::timestamptz)
    AND ($8::jsonb IS NULL OR (j.metadata IS NOT NULL AND j.metadata @> $8::jsonb))
    AND ($10::uuid IS NULL OR j.id IN (SELECT r.job FROM schedule_runs r WHERE r.schedule = $10::uuid))
ORDER BY u.tenant DESC, u.job DESC LIMIT $9::integer
