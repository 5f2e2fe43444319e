-- Operations on many objects, with their progress. ended_us is 0 while one is running.

-- +goose Up
CREATE TABLE bulk (
    org       BYTEA  NOT NULL,
    id        TEXT   NOT NULL,
    worker_id TEXT   NOT NULL,
    begun_us  BIGINT NOT NULL,
    ended_us  BIGINT NOT NULL,
    request   BYTEA  NOT NULL,
    plan      BYTEA  NOT NULL,
    progress  BYTEA  NOT NULL,
    PRIMARY KEY (id, org)
);
CREATE INDEX bulk_ended ON bulk (ended_us, begun_us, id, org);
