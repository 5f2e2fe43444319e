-- What is kept of agents and of what they use: harnesses, agents, models, their providers, and users' connections. The keys
-- and tokens among it are sealed. version is the fence of each row: it rises by one with every write.
--
-- directory_default holds one id for each thing of which there is one default: the model, and the provider of each kind.

-- +goose Up
CREATE TABLE harness (
    id         TEXT   NOT NULL PRIMARY KEY,
    version    BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    body       BYTEA  NOT NULL
);

CREATE TABLE agent (
    id         TEXT   NOT NULL PRIMARY KEY,
    version    BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    body       BYTEA  NOT NULL
);

CREATE TABLE model (
    id          TEXT   NOT NULL PRIMARY KEY,
    provider_id TEXT   NOT NULL,
    name        BYTEA  NOT NULL,
    title       BYTEA  NOT NULL,
    version     BIGINT NOT NULL,
    created_us  BIGINT NOT NULL,
    updated_us  BIGINT NOT NULL
);
CREATE INDEX model_provider ON model (provider_id);

CREATE TABLE provider (
    id         TEXT   NOT NULL PRIMARY KEY,
    kind       BYTEA  NOT NULL,
    name       BYTEA  NOT NULL,
    base_url   BYTEA  NOT NULL,
    sealed     BYTEA  NOT NULL,
    version    BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL
);

CREATE TABLE user_connection (
    user_id    BYTEA  NOT NULL,
    provider   BYTEA  NOT NULL,
    sealed     BYTEA  NOT NULL,
    owner_id   BYTEA  NOT NULL,
    metadata   BYTEA  NOT NULL,
    version    BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (user_id, provider)
);

CREATE TABLE directory_default (
    of_what BYTEA NOT NULL PRIMARY KEY,
    id      TEXT  NOT NULL
);
