-- Claims uploads at stores that are to be removed, by moving the time of their next try: by 15 s at first,
-- then by twice as much for each try, up to an hour. Nodes that die lose none.
-- Locks: these uploads, skipping those that another transaction has locked.
-- $1 maximum number of uploads. Returns for each one its job, when that was created, tenant, origin, spec,
-- the upload (NextRequest, sealed), secrets or null, and whether this is the last try.
UPDATE abandoned_uploads SET
    tries = tries + 1,
    due_at = now() + least(interval '1 hour', interval '15 seconds' * 2 ^ least(10, tries))
WHERE job = ANY (ARRAY(
    SELECT job FROM abandoned_uploads WHERE due_at <= now() ORDER BY due_at LIMIT $1::integer
    FOR UPDATE SKIP LOCKED)) AND due_at <= now()
RETURNING job, created_at, tenant, origin, spec, next_request, secrets, due_at > ends_at
