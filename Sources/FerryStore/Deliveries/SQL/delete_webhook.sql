-- Deletes an endpoint; housekeeping removes its deliveries, then the row. It gets another revision, by which
-- senders that have claimed something for it see it. Locks: its row. $1 id, $2 revision.
UPDATE webhooks SET
    deleted_at = now(), is_enabled = false, disabled_reason = 'requested', revision = revision + 1
WHERE id = $1::uuid AND revision = $2::integer AND deleted_at IS NULL
