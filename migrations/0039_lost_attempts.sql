-- Columns instead of searches in JSON texts.
ALTER TABLE jobs ADD COLUMN was_lost boolean NOT NULL DEFAULT false;
UPDATE jobs SET awaits_host = job_awaits_host(spec, NULL) WHERE awaits_host IS NULL;
UPDATE jobs SET was_lost = true WHERE error LIKE '%"node_lost"%';
ALTER TABLE jobs ALTER COLUMN awaits_host SET DEFAULT false, ALTER COLUMN awaits_host SET NOT NULL;
DROP FUNCTION job_awaits_host(text, text);
