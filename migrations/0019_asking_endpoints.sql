-- Endpoints that ask that results are kept until they are acknowledged.

ALTER TABLE webhooks
    -- What it asks for, with its own identifier (AcknowledgementRules in the source), as it becomes part of
    -- the jobs' descriptions. Null: nothing.
    ADD COLUMN acknowledgement text;
-- Whether there is any: whoever ends jobs asks.
CREATE INDEX webhooks_asking ON webhooks (tenant, id)
    WHERE acknowledgement IS NOT NULL AND is_enabled AND deleted_at IS NULL;

ALTER TABLE unacknowledged_jobs
    -- Which asks for it, and alone can acknowledge it by accepting. Null: the job or its session does.
    ADD COLUMN endpoint uuid;
