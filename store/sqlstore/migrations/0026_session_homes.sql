-- The home of a session's files outside the store: its databases, large images and workspace. Only a worker of that home drives the
-- session. waits_us is when it began to wait for its home; 0: it does not wait.

-- +goose Up
ALTER TABLE session ADD COLUMN home_id TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN waits_us BIGINT NOT NULL DEFAULT 0;
CREATE INDEX session_waits ON session (home_id, created_us, id) WHERE waits_us > 0;
