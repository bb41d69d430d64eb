-- name: notify(channel text, message text)
SELECT pg_catalog.pg_notify($1, $2)
