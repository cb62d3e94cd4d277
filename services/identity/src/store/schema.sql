CREATE TABLE IF NOT EXISTS identity_schema (
    version INTEGER NOT NULL PRIMARY KEY
);
CREATE TABLE IF NOT EXISTS identity_tokens (
    digest VARCHAR(64) NOT NULL PRIMARY KEY,
    user_id VARCHAR(64) NOT NULL,
    scope VARCHAR(16) NOT NULL,
    scope_id VARCHAR(64),
    roles TEXT NOT NULL,
    methods TEXT NOT NULL,
    audit_id VARCHAR(32) NOT NULL,
    chain_id VARCHAR(32) NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    issued_at VARCHAR(26) NOT NULL,
    expires_at VARCHAR(26) NOT NULL
);
CREATE INDEX IF NOT EXISTS identity_tokens_chain_id ON identity_tokens (chain_id);
CREATE INDEX IF NOT EXISTS identity_tokens_user_id ON identity_tokens (user_id, expires_at);
CREATE INDEX IF NOT EXISTS identity_tokens_expires_at ON identity_tokens (expires_at);
