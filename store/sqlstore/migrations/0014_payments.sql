-- Attempts to pay (PA2), which are never removed, and how often tools went out (RL1): one row a second and organisation, for
-- as long as the window reaches.

-- +goose Up
CREATE TABLE payment (
    hash        BYTEA  NOT NULL,
    attempt     BIGINT NOT NULL,
    position    BIGINT NOT NULL,
    token       TEXT   NOT NULL,
    org         BYTEA  NOT NULL,
    session_id  TEXT   NOT NULL,
    turn        BYTEA  NOT NULL,
    call_id     BYTEA  NOT NULL,
    tool        BYTEA  NOT NULL,
    capability  BYTEA  NOT NULL,
    host        BYTEA  NOT NULL,
    operation   BYTEA  NOT NULL,
    currency    BYTEA  NOT NULL,
    micros      BIGINT NOT NULL,
    approved_by BYTEA  NOT NULL,
    state       TEXT   NOT NULL,
    receipt     BYTEA  NOT NULL,
    note        BYTEA  NOT NULL,
    resolved_by BYTEA  NOT NULL,
    created_us  BIGINT NOT NULL,
    until_us    BIGINT NOT NULL,
    settled_us  BIGINT NOT NULL,
    PRIMARY KEY (hash, attempt)
);
CREATE INDEX payment_position ON payment (position);
CREATE INDEX payment_session ON payment (session_id, position);
CREATE INDEX payment_org ON payment (org, position);
CREATE INDEX payment_day ON payment (org, currency, created_us, micros) WHERE state <> 'refused';
CREATE INDEX payment_turn ON payment (turn) WHERE state <> 'refused';

CREATE TABLE outbound (
    org    BYTEA  NOT NULL,
    bucket BIGINT NOT NULL,
    calls  BIGINT NOT NULL,
    PRIMARY KEY (org, bucket)
);
