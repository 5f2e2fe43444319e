-- Checkpoints of messages that stream (TN19): one row a message, gone when it is whole.

-- +goose Up
CREATE TABLE partial (
    session_id TEXT   NOT NULL,
    message_id TEXT   NOT NULL,
    body       BYTEA  NOT NULL,
    at_us      BIGINT NOT NULL,
    PRIMARY KEY (session_id, message_id)
);
