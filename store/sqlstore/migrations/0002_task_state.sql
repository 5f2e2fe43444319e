
-- Tasks are counted by state and session again and again (BG16); nothing of their records is read for it.

-- +goose Up
CREATE INDEX task_state ON task (state, session_id, position);
