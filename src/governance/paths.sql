-- name: path_match(data jsonb, predicate text, vars jsonb)
SELECT coalesce(jsonb_path_match($1, $2::jsonpath, $3, true), false)

-- name: path_first(data jsonb, path text, vars jsonb)
SELECT jsonb_path_query_first($1, $2::jsonpath, $3, true)
