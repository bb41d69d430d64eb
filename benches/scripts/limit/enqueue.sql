INSERT INTO job (kind, payload) VALUES ('k', :payload);
