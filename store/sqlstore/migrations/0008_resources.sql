-- What stands beside a session: entries of its registry (RS1), which go with it, and leased resources (RS2), which may
-- outlive it, since somebody must clean them up. position is counted within a session.
--
-- cleanup_us is the fence of the last claim of a lease. It only grows, also when the lease is refreshed, so that no
-- cleaner ever takes the claim of another for its own.

-- +goose Up
CREATE TABLE resource (
    session_id  TEXT   NOT NULL,
    resource_id BYTEA  NOT NULL,
    position    BIGINT NOT NULL,
    kind        BYTEA  NOT NULL,
    name        BYTEA  NOT NULL,
    status      TEXT   NOT NULL,
    metadata    BYTEA  NOT NULL,
    task_id     TEXT   NOT NULL,
    created_us  BIGINT NOT NULL,
    updated_us  BIGINT NOT NULL,
    PRIMARY KEY (session_id, resource_id)
);
CREATE INDEX resource_by_id ON resource (resource_id);

CREATE TABLE lease (
    id            TEXT    NOT NULL PRIMARY KEY,
    session_id    TEXT    NOT NULL,
    position      BIGINT  NOT NULL,
    provider      BYTEA   NOT NULL,
    resource_type BYTEA   NOT NULL,
    external_id   BYTEA   NOT NULL,
    name          BYTEA   NOT NULL,
    status        TEXT    NOT NULL,
    owner_id      BYTEA   NOT NULL,
    keep          BOOLEAN NOT NULL,
    task_id       TEXT    NOT NULL,
    metadata      BYTEA   NOT NULL,
    expires_us    BIGINT  NOT NULL,
    cleanup_us    BIGINT  NOT NULL,
    attempts      BIGINT  NOT NULL,
    last_error    BYTEA   NOT NULL,
    created_us    BIGINT  NOT NULL,
    updated_us    BIGINT  NOT NULL
);
CREATE UNIQUE INDEX lease_key ON lease (provider, resource_type, external_id);
CREATE INDEX lease_session ON lease (session_id, position);
CREATE INDEX lease_due ON lease (provider, expires_us) WHERE status <> 'released';
CREATE INDEX lease_released ON lease (updated_us) WHERE status = 'released';
