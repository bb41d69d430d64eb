INSERT INTO jobs (kind, payload) SELECT 'k', payload FROM jsonb_array_elements(:payloads) payload;
