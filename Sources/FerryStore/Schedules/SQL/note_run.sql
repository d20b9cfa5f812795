-- Records a run by hand. Locks: the row. $1 id, $2 now, $3 its first job.
UPDATE schedules SET
    last_scheduled_at = $2::timestamptz, last_run_at = $2::timestamptz, last_job = $3::uuid,
    run_count = run_count + 1
WHERE id = $1::uuid
