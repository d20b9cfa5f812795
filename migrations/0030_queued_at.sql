-- Since when a job is queued that was not queued at once: it has waited for something, or a node has given it
-- back. Null: since it was created. Says something only of queued jobs; read by read_status.sql alone.
ALTER TABLE jobs ADD COLUMN queued_at timestamptz;
