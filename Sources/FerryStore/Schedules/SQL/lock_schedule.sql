-- Locks a schedule before the unique keys of its jobs, as due_schedules.sql does. $1 id.
SELECT id FROM schedules WHERE id = $1::uuid FOR NO KEY UPDATE
