-- Records a step of a bulk operation that claim_bulk_operation.sql has locked.
-- $1 id, $2 state, $3 jobs looked at, $4 jobs changed, $5 other jobs by reason (JSON), $6 upper bound of the
-- jobs still to be looked at, $7 when the next step is due, $8 time of the end or null.
UPDATE bulk_operations SET
    state = $2::text::bulk_state, examined = $3::bigint, changed = $4::bigint, reasons = $5::text,
    position = $6::uuid, step_at = $7::timestamptz, finished_at = $8::timestamptz
WHERE id = $1::uuid
