-- Notifies the nodes that there is work. NOTIFY serialises commits, so it is sent once for each batch, and
-- only if other nodes listen. $1 the payload.
SELECT pg_notify('ferry', $1::text)
