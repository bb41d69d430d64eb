-- Where events were first written: of which server and which database there. It is in no dump, so that nothing is sealed
-- while a dump is being restored, and has no key, so that first writers do not wait for each other.
CREATE TABLE agentq_internal.event_origin (
    origin text NOT NULL
);
COMMENT ON TABLE agentq_internal.event_origin IS 'The servers and databases in which sessions have written the first events. The engine looks here after a crash.';
COMMENT ON COLUMN agentq_internal.event_origin.origin IS 'The number of the server and of the database.';
