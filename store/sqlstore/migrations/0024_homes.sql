-- A home is a data directory: what tools left running there, and the files of sessions. A worker and a claim name theirs. The row
-- of a home stays when its workers are gone, so that its return can be waited for.

-- +goose Up
CREATE TABLE home (
    id      TEXT   NOT NULL PRIMARY KEY,
    host    BYTEA  NOT NULL,
    seen_us BIGINT NOT NULL
);

ALTER TABLE worker ADD COLUMN home_id TEXT NOT NULL DEFAULT '';
ALTER TABLE call ADD COLUMN home_id TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN home_id TEXT NOT NULL DEFAULT '';
