-- Approvals (AP3), who sent a task's message (TK11), and where a task came from: detached calls take none of
-- a session's places (BG16), so they are counted apart, by an index that has all that is read.
--
-- Tasks of earlier schemas get their origin from their record, which says it before the arguments, where
-- anybody may have written the same words. Detached comes last, so that these never make a task look as if it
-- took no place. Only SQLite has such tasks: elsewhere the cast would not show the text, and there are no rows.

-- +goose Up
ALTER TABLE task_message ADD COLUMN sent_by BYTEA NOT NULL DEFAULT '';

ALTER TABLE task ADD COLUMN origin TEXT NOT NULL DEFAULT '';
UPDATE task SET origin = CASE
    WHEN CAST(record AS TEXT) LIKE '%"origin":"spawned","tool":"%' THEN 'spawned'
    WHEN CAST(record AS TEXT) LIKE '%"origin":"routed","tool":"%' THEN 'routed'
    WHEN CAST(record AS TEXT) LIKE '%"origin":"schedule","tool":"%' THEN 'schedule'
    WHEN CAST(record AS TEXT) LIKE '%"origin":"subagent","tool":"%' THEN 'subagent'
    WHEN CAST(record AS TEXT) LIKE '%"origin":"host","tool":"%' THEN 'host'
    WHEN CAST(record AS TEXT) LIKE '%"origin":"","tool":"%' THEN ''
    WHEN CAST(record AS TEXT) LIKE '%"origin":"detached","tool":"%' THEN 'detached'
    ELSE '' END;
DROP INDEX task_state;
CREATE INDEX task_state ON task (state, session_id, position, origin);

CREATE TABLE approval (
    id         TEXT   NOT NULL PRIMARY KEY,
    session_id TEXT   NOT NULL,
    call_id    BYTEA  NOT NULL,
    position   BIGINT NOT NULL,
    state      TEXT   NOT NULL,
    record     BYTEA  NOT NULL
);
CREATE INDEX approval_position ON approval (position);
CREATE INDEX approval_session ON approval (session_id, call_id, position);
CREATE INDEX approval_open ON approval (position) WHERE state = 'open';
