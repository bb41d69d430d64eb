-- PgQ has no call for many events; its own is called for each in one statement.
SELECT pgq.insert_event('k', 'k', payload::text) FROM json_array_elements(:payloads::json) payload;
