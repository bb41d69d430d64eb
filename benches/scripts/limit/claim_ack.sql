\set n :n + 1
\set id :n * :clients + :client_id + 1
UPDATE job SET state = 'running', locked_by = 'w', locked_at = now() WHERE id = :id RETURNING payload;
UPDATE job SET state = 'done', finished_at = now() WHERE id = :id;
