SELECT count(fn_job_enqueue('k', p_payload_json => payload)) FROM jsonb_array_elements(:payloads) payload;
