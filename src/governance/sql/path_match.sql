SELECT coalesce(jsonb_path_match($1, $2::jsonpath, $3, true), false)
