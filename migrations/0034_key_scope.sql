-- A tenant uses an idempotency key for one request, whatever its method and path: a key that comes with
-- another request is refused. Of a key that two routes have had within a day the first use stays.

-- Before the rows are looked at: a node of the version before may add another one.
LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE;
DELETE FROM idempotency_keys k USING idempotency_keys earlier
WHERE earlier.tenant = k.tenant AND earlier.key = k.key
    AND (earlier.created_at, earlier.route) < (k.created_at, k.route);
ALTER TABLE idempotency_keys
    DROP CONSTRAINT idempotency_keys_pkey,
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant, key);
