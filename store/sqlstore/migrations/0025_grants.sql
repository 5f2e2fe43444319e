-- The last grant of a session or of one of its tasks that was used, and the worker that used it. task_id is
-- empty for the session.

-- +goose Up
CREATE TABLE work_grant (
    session_id TEXT   NOT NULL,
    task_id    TEXT   NOT NULL,
    worker_id  TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    PRIMARY KEY (session_id, task_id)
);

CREATE INDEX session_unread ON session (created_us, id) WHERE worker_id = '' AND last_seq > taken_seq;
