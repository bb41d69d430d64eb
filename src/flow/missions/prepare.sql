-- name: results(mission_id uuid, names text[])
SELECT coalesce(jsonb_object_agg(s.name, CASE WHEN s.status = 'succeeded' THEN coalesce(s.result, 'null')
                                              ELSE jsonb_build_object('status', s.status, 'error', s.last_error) END), '{}')
       || (SELECT jsonb_build_object('input', m.input) FROM agentq.mission m WHERE m.mission_id = $1)
FROM unnest($2) AS n (name)
CROSS JOIN LATERAL (
    SELECT o.name, o.status, o.result, o.last_error FROM agentq_internal.mission_step o
    WHERE o.mission_id = $1 AND o.name = n.name COLLATE "C" AND o.ended_at IS NOT NULL OFFSET 0) s

-- name: paths(results jsonb, paths text[], variables jsonb)
SELECT p.path, jsonb_path_query_first($1, p.path::jsonpath, $3, true) AS value FROM unnest($2) AS p (path)

-- name: path_list(results jsonb, path text)
SELECT jsonb_path_query_array($1, $2::jsonpath, '{}', true)

-- name: path_comes_to(results jsonb, beginnings text[])
-- Whether the longest beginning that finds something finds more than an empty list.
SELECT jsonb_path_exists($1, (p.path || '[*]')::jsonpath, '{}', true)
FROM unnest($2) WITH ORDINALITY AS p (path, place)
WHERE jsonb_path_exists($1, p.path::jsonpath, '{}', true)
ORDER BY p.place LIMIT 1
