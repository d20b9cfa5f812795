-- Cancels a running bulk operation; the jobs that it has changed stay changed. Locks: its row (waits for a
-- step that is being carried out). $1 id, $2 tenant, $3 now. Returns the id, or no row if it does not run.
UPDATE bulk_operations SET state = 'cancelled', finished_at = $3::timestamptz
WHERE id = $1::uuid AND tenant = $2::text AND state = 'running'
RETURNING id
