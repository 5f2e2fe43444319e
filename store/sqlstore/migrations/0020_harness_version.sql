-- What harnesses were: a row for each write of one, as it was stored by it. What was overwritten before this table was made is not known.

-- +goose Up
CREATE TABLE harness_version (
    id      TEXT   NOT NULL,
    version BIGINT NOT NULL,
    body    BYTEA  NOT NULL,
    PRIMARY KEY (id, version)
);

INSERT INTO harness_version (id, version, body) SELECT id, version, body FROM harness;
