-- Images that tools leave (IM1). The bytes of a small one stand in its row; those of a large one stand outside, by their
-- SHA-256, where there is such a place.

-- +goose Up
CREATE TABLE image (
    id           TEXT    NOT NULL PRIMARY KEY,
    session_id   TEXT    NOT NULL,
    filename     BYTEA   NOT NULL,
    content_type TEXT    NOT NULL,
    size_bytes   BIGINT  NOT NULL,
    sha256       TEXT    NOT NULL,
    metadata     BYTEA   NOT NULL,
    is_blob      BOOLEAN NOT NULL,
    created_us   BIGINT  NOT NULL,
    body         BYTEA   NOT NULL
);
CREATE INDEX image_session ON image (session_id, created_us);
CREATE INDEX image_sha256 ON image (sha256);
