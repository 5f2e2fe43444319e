-- Webhooks (H13), what is queued for them, and how far each journal was looked at for them. Nothing is written here while
-- there is no webhook, but for sessions that are restored.

-- +goose Up
CREATE TABLE webhook (
    id      TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    record  BYTEA  NOT NULL
);

CREATE TABLE webhook_cursor (
    session_id TEXT   NOT NULL PRIMARY KEY,
    seq        BIGINT NOT NULL
);

CREATE TABLE webhook_delivery (
    id         TEXT   NOT NULL PRIMARY KEY,
    webhook_id TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    due_us     BIGINT NOT NULL,
    ended_us   BIGINT NOT NULL,
    record     BYTEA  NOT NULL
);
CREATE INDEX webhook_delivery_of ON webhook_delivery (webhook_id, id);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook_id, due_us, id) WHERE ended_us = 0;
CREATE INDEX webhook_delivery_ended ON webhook_delivery (ended_us) WHERE ended_us <> 0;
CREATE INDEX webhook_delivery_session ON webhook_delivery (session_id);
