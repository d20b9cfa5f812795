-- From here on what is not harmless of specs, sessions, responses and questions is encrypted within them: the
-- member `sealed`, a merge patch. A binary from before would take what stands in its place for the value, and
-- send requests with it; it refuses this schema.
COMMENT ON COLUMN jobs.spec IS 'Accepted fields; what is not harmless is in the member sealed, encrypted.';
COMMENT ON COLUMN jobs.question IS 'What is asked; what is not harmless is in the member sealed, encrypted.';
