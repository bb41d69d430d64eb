-- Tokens: for whom a login acts that acts for others. No level reads this table, and no dump has it: a restored dump would bring
-- back what was revoked since.
CREATE TABLE agentq_internal.access_token (
    token_id      uuid PRIMARY KEY,
    hash          text NOT NULL,
    role_oid      oid NOT NULL,
    kind          text NOT NULL,
    label         text,
    agent         text,
    run_id        text,
    scopes        text[],
    issued_at     timestamptz NOT NULL,
    issued_by     text NOT NULL,
    issued_with   uuid REFERENCES agentq_internal.access_token ON DELETE SET NULL,
    expires_at    timestamptz NOT NULL,
    revoked_at    timestamptz,
    revoked_by    text,
    revoke_reason text,
    CONSTRAINT access_token_hash_key UNIQUE (hash),
    CONSTRAINT access_token_hash_check CHECK (hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT access_token_kind_check CHECK (kind IN ('console', 'api', 'mcp')),
    CONSTRAINT access_token_scopes_check CHECK (scopes <@ '{producer, proposer, worker, operator, reader}' AND scopes <> '{}'),
    CONSTRAINT access_token_issued_with_check CHECK (issued_with IS NULL OR kind <> 'console'),
    CONSTRAINT access_token_expires_at_check CHECK (expires_at > issued_at),
    CONSTRAINT access_token_revoked_check CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE INDEX access_token_role_idx ON agentq_internal.access_token (role_oid, token_id);
CREATE INDEX access_token_end_idx ON agentq_internal.access_token (expires_at);
CREATE INDEX access_token_issued_with_idx ON agentq_internal.access_token (issued_with) WHERE issued_with IS NOT NULL;
COMMENT ON TABLE agentq_internal.access_token IS 'Tokens of those for whom other logins act.';
COMMENT ON COLUMN agentq_internal.access_token.token_id IS 'Its id, which is no secret.';
COMMENT ON COLUMN agentq_internal.access_token.hash IS 'SHA-256 of the token, in hex. The token itself is in the answer of fn_token_issue alone.';
COMMENT ON COLUMN agentq_internal.access_token.role_oid IS 'The role that acts with it. By its id: a role that is made again under the same name is another one.';
COMMENT ON COLUMN agentq_internal.access_token.kind IS 'console: a person; api: a program; mcp: the tools of an agent.';
COMMENT ON COLUMN agentq_internal.access_token.label IS 'What it is called, for people.';
COMMENT ON COLUMN agentq_internal.access_token.agent IS 'The agent that it is for.';
COMMENT ON COLUMN agentq_internal.access_token.run_id IS 'The run that it is for.';
COMMENT ON COLUMN agentq_internal.access_token.scopes IS 'Levels that limit it: it may call what both its role and one of them may. NULL: all that its role may.';
COMMENT ON COLUMN agentq_internal.access_token.issued_at IS 'When it was issued.';
COMMENT ON COLUMN agentq_internal.access_token.issued_by IS 'By whom.';
COMMENT ON COLUMN agentq_internal.access_token.issued_with IS 'The token with which it was issued: once that is revoked, it does not hold either.';
COMMENT ON COLUMN agentq_internal.access_token.expires_at IS 'Until when it holds.';
COMMENT ON COLUMN agentq_internal.access_token.revoked_at IS 'When it was revoked.';
COMMENT ON COLUMN agentq_internal.access_token.revoked_by IS 'By whom.';
COMMENT ON COLUMN agentq_internal.access_token.revoke_reason IS 'Why.';
