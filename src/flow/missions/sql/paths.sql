SELECT p.path, jsonb_path_query_first($1, p.path::jsonpath, $3, true) FROM unnest($2) AS p (path)
