-- Subagents: the lineage of sessions (SA1) and the handles by which children are spawned (SA2). Retention: when a
-- task ended, and whose approval it is that goes with it (TK16).
--
-- A session of an earlier schema is the root of its own tree. A task's ended_us is 0 while it lives; -1 says that an
-- earlier schema wrote the row, and the moment is read from its record before anything is pruned. An approval of an
-- earlier schema gets its task from its record, which says it before the tool and the arguments. One whose call id is
-- not written there as it is stays without: it is kept. Only SQLite has such rows: elsewhere the cast would not show
-- the text.

-- +goose Up
ALTER TABLE session ADD COLUMN parent_id TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN root_id TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN forked_id TEXT NOT NULL DEFAULT '';
UPDATE session SET root_id = id;
CREATE INDEX session_parent ON session (parent_id, created_us, id) WHERE parent_id <> '';

ALTER TABLE task ADD COLUMN ended_us BIGINT NOT NULL DEFAULT -1;
CREATE INDEX task_ended ON task (ended_us, position) WHERE ended_us <> 0;

ALTER TABLE approval ADD COLUMN task_id TEXT NOT NULL DEFAULT '';
UPDATE approval SET task_id = COALESCE((SELECT task.id FROM task WHERE task.session_id = approval.session_id AND
    substr(CAST(approval.record AS TEXT), 1, length('{"id":"","session_id":"","call_id":"","task_id":"","tool":"' || approval.id
        || approval.session_id || CAST(approval.call_id AS TEXT) || task.id))
    = '{"id":"' || approval.id || '","session_id":"' || approval.session_id || '","call_id":"' || CAST(approval.call_id AS TEXT)
        || '","task_id":"' || task.id || '","tool":"'), '');
CREATE INDEX approval_task ON approval (task_id) WHERE task_id <> '';

CREATE TABLE spawn (
    session_id    TEXT   NOT NULL,
    call_id       BYTEA  NOT NULL,
    position      BIGINT NOT NULL,
    root_id       TEXT   NOT NULL,
    depth         BIGINT NOT NULL,
    task_id       TEXT   NOT NULL,
    child_id      TEXT   NOT NULL,
    name          BYTEA  NOT NULL,
    prompt        BYTEA  NOT NULL,
    result_schema BYTEA  NOT NULL,
    token         TEXT   NOT NULL,
    state         TEXT   NOT NULL,
    repairs       BIGINT NOT NULL,
    status        TEXT   NOT NULL,
    result        BYTEA  NOT NULL,
    created_us    BIGINT NOT NULL,
    settled_us    BIGINT NOT NULL,
    PRIMARY KEY (session_id, call_id)
);
CREATE INDEX spawn_position ON spawn (position);
CREATE INDEX spawn_root ON spawn (root_id, position, state);
CREATE UNIQUE INDEX spawn_child ON spawn (child_id) WHERE child_id <> '';
