-- Deletes an endpoint; its deliveries, and then the row, are removed by remove_old_deliveries.sql. The new
-- revision tells senders that have claimed deliveries of it. Locks: its row. $1 id, $2 expected revision.
UPDATE webhooks SET
    deleted_at = now(), is_enabled = false, disabled_reason = 'requested', revision = revision + 1
-- An expression, so that no plan uses the index of tenants.
WHERE id = $1::uuid AND revision = $2::integer AND coalesce(deleted_at, 'infinity') = 'infinity'
