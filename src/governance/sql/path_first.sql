SELECT jsonb_path_query_first($1, $2::jsonpath, $3, true)
