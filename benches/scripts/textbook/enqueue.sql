INSERT INTO jobs (kind, payload) VALUES ('k', :payload) RETURNING id;
