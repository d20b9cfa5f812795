-- Tells the nodes that there is work. Serialises commits, so that it is sent once a batch and only when other
-- nodes listen. $1 the payload.
SELECT pg_notify('ferry', $1::text)
