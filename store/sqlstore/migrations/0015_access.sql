-- Who is let in (H11): of a token's secret only the hash is kept. And whose a session is, for ever: an empty org is the default
-- one, which has all that was there before there were others. Everything else is reached through its session.

-- +goose Up
CREATE TABLE access_token (
    id     TEXT  NOT NULL PRIMARY KEY,
    hash   TEXT  NOT NULL UNIQUE,
    org    TEXT  NOT NULL,
    record BYTEA NOT NULL
);
CREATE INDEX access_token_org ON access_token (org, id);

ALTER TABLE session ADD COLUMN org TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN owner BYTEA NOT NULL DEFAULT '';
CREATE INDEX session_org ON session (org, created_us, id);
