-- How much a session's files hold, for their quota (FI6): the index answers it without touching a content.

-- +goose Up
CREATE INDEX file_size ON file (session_id, size_bytes);
