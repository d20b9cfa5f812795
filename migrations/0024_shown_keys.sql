-- An API key is shown in the answer that makes it, and in the answers to the same request again.

ALTER TABLE idempotency_keys
    -- What the first answer has shown and nothing else does: sealed.
    ADD COLUMN secret bytea;
