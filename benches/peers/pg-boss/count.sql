-- Finished jobs stay where they are until an instance's chores move them to the archive; none runs here.
SELECT count(*), count(*) FILTER (WHERE state = 'completed') FROM pgboss.job;
