-- The labels of sessions: as the row shows them, and as they are looked for.

-- +goose Up
ALTER TABLE session ADD COLUMN labels BYTEA NOT NULL DEFAULT '';

CREATE TABLE session_label (
    session_id TEXT  NOT NULL,
    name       TEXT  NOT NULL,
    value      BYTEA NOT NULL,
    PRIMARY KEY (session_id, name)
);
CREATE INDEX session_label_of ON session_label (name, value, session_id);
