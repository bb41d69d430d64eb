-- name: origin_note(origin text)
INSERT INTO agentq_internal.event_origin (origin) SELECT $1
WHERE NOT EXISTS (SELECT FROM agentq_internal.event_seal WHERE origin = $1)
  AND NOT EXISTS (SELECT FROM agentq_internal.event_origin WHERE origin = $1)

-- before: origin_note(origin text)
SELECT WHERE $1 IS NULL

-- name: origin_is_known(origin text)
-- What another server has written into event_origin has come with the files, by pg_upgrade say: no dump has it.
SELECT EXISTS (SELECT FROM agentq_internal.event_seal WHERE origin = $1)
       OR EXISTS (SELECT FROM agentq_internal.event_origin)

-- before: origin_is_known(origin text)
SELECT EXISTS (SELECT FROM agentq_internal.event_seal WHERE origin = $1)
