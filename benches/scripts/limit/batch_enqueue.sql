INSERT INTO job (kind, payload) SELECT 'k', payload FROM jsonb_array_elements(:payloads) payload;
