-- The audit log (S26): one chain of entries an org. An entry's hash is of its record, which has the hash of the one before; the
-- head says where the chain ends, so that one that was cut is found.

-- +goose Up
CREATE TABLE audit_entry (
    org    TEXT   NOT NULL,
    seq    BIGINT NOT NULL,
    hash   TEXT   NOT NULL,
    record BYTEA  NOT NULL,
    PRIMARY KEY (org, seq)
);

CREATE TABLE audit_head (
    org  TEXT   NOT NULL PRIMARY KEY,
    seq  BIGINT NOT NULL,
    hash TEXT   NOT NULL
);
