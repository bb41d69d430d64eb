SELECT jsonb_path_query_array($1, $2::jsonpath, '{}', true)
