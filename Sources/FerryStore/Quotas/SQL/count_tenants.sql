-- Counts the unfinished jobs of each tenant, by state. Locks nothing; reads the whole table.
SELECT tenant, count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'queued'),
    count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'suspended')
FROM jobs GROUP BY tenant ORDER BY tenant
