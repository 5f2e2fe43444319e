-- The calls of a session that have no outcome of their own are looked up before another one with an effect is claimed.

-- +goose Up
CREATE INDEX call_in_doubt ON call (session_id, position) WHERE (state <> 'settled' OR length(resolved_by) > 0);
