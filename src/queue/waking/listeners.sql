-- name: notify(p1 text, text text)
SELECT pg_catalog.pg_notify($1, $2)
