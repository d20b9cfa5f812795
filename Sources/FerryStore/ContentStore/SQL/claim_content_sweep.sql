-- Begins a sweep of the content store and raises the generation, unless another sweep has begun less than $2
-- seconds ago, or the store has a higher generation: then this database was restored. A time of the last
-- sweep that lies in the future counts only as long. Locks: the row.
-- $1 generation of the store, $2 seconds between two sweeps.
-- Returns the generation, whether the sweep begins, and the seconds until another one may begin.
WITH begun AS (
    UPDATE content_store SET generation = generation + 1, swept_at = now()
    WHERE is_only AND generation >= $1::bigint
        AND (swept_at BETWEEN now() - make_interval(secs => $2::double precision)
            AND now() + make_interval(secs => $2::double precision)) IS NOT TRUE
    RETURNING generation
)
SELECT coalesce(b.generation, s.generation), b.generation IS NOT NULL,
    CASE WHEN b.generation IS NULL
        THEN greatest(0, coalesce(extract(epoch FROM s.swept_at - now())::double precision + $2, 0))
        ELSE $2 END
FROM content_store s LEFT JOIN begun b ON true
WHERE s.is_only
