-- Reads how many more sessions the server admits: the least that is left of all, of this role, and of this
-- database; null if it does not say. Superusers are not limited by role or database. Sessions of other roles
-- count even if their details are hidden.
WITH
    me AS (SELECT oid, rolconnlimit, rolsuper FROM pg_roles WHERE rolname = session_user),
    here AS (SELECT oid, datconnlimit FROM pg_database WHERE datname = current_database()),
    used AS (SELECT datid, usesysid FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL)
SELECT
    least(
        current_setting('max_connections')::bigint
        - CASE WHEN me.rolsuper THEN 0
            ELSE current_setting('superuser_reserved_connections')::bigint
                -- Since PostgreSQL 16.
                + coalesce(current_setting('reserved_connections', true)::bigint, 0) END
        - (SELECT count(*) FROM used),
        CASE WHEN me.rolconnlimit >= 0 AND NOT me.rolsuper
            THEN me.rolconnlimit - (SELECT count(*) FROM used WHERE usesysid = me.oid) END,
        CASE WHEN here.datconnlimit >= 0 AND NOT me.rolsuper
            THEN here.datconnlimit - (SELECT count(*) FROM used WHERE datid = here.oid) END)
FROM me, here
