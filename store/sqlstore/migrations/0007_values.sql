-- What sessions keep by key (VA1), and sealed values (SE1). Neither table knows a plain secret.

-- +goose Up
CREATE TABLE session_value (
    session_id TEXT   NOT NULL,
    name       BYTEA  NOT NULL,
    version    BIGINT NOT NULL,
    body       BYTEA  NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (session_id, name)
);

CREATE TABLE session_secret (
    session_id TEXT   NOT NULL,
    name       BYTEA  NOT NULL,
    version    BIGINT NOT NULL,
    sealed     BYTEA  NOT NULL,
    key_id     TEXT   NOT NULL,
    hosts      BYTEA  NOT NULL,
    call_id    BYTEA  NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (session_id, name)
);
