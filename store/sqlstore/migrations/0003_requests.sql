-- Requests that came with an idempotency key (H4). Status is 0 while there is no answer. Old rows are looked
-- for by the moment at which they were begun.

-- +goose Up
CREATE TABLE request (
    scope        BYTEA  NOT NULL,
    request_key  BYTEA  NOT NULL,
    hash         BYTEA  NOT NULL,
    seed         BYTEA  NOT NULL,
    begun_us     BIGINT NOT NULL,
    status       BIGINT NOT NULL,
    content_type BYTEA  NOT NULL,
    location     BYTEA  NOT NULL,
    body         BYTEA  NOT NULL,
    PRIMARY KEY (scope, request_key)
);
CREATE INDEX request_begun ON request (begun_us, scope, request_key);
