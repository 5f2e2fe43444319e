-- What may be spent, and what was. An amount is in millionths of its currency. The account of a budget is its row: spent_um is
-- what its charges after from_us add up to, reserved_um what its holds do. owner is the scope, a colon, and the subject.
-- Of a budget, a session and its work there is one hold and one line of the ledger.

-- +goose Up
CREATE TABLE budget (
    id          TEXT    NOT NULL PRIMARY KEY,
    owner       BYTEA   NOT NULL,
    scope       TEXT    NOT NULL,
    subject     BYTEA   NOT NULL,
    currency    TEXT    NOT NULL,
    limit_um    BIGINT  NOT NULL,
    soft_um     BIGINT  NOT NULL,
    period      TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    spent_um    BIGINT  NOT NULL,
    reserved_um BIGINT  NOT NULL,
    unpriced    BIGINT  NOT NULL,
    warned      BOOLEAN NOT NULL,
    from_us     BIGINT  NOT NULL,
    created_us  BIGINT  NOT NULL,
    updated_us  BIGINT  NOT NULL
);
CREATE INDEX budget_owner ON budget (owner);

CREATE TABLE budget_hold (
    session_id TEXT   NOT NULL,
    work       BYTEA  NOT NULL,
    budget_id  TEXT   NOT NULL,
    amount_um  BIGINT NOT NULL,
    at_us      BIGINT NOT NULL,
    PRIMARY KEY (session_id, work, budget_id)
);
CREATE INDEX budget_hold_budget ON budget_hold (budget_id);

CREATE TABLE budget_entry (
    budget_id  TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    work       BYTEA   NOT NULL,
    position   BIGINT  NOT NULL,
    kind       TEXT    NOT NULL,
    name       BYTEA   NOT NULL,
    amount_um  BIGINT  NOT NULL,
    estimate   BOOLEAN NOT NULL,
    unpriced   BOOLEAN NOT NULL,
    at_us      BIGINT  NOT NULL,
    PRIMARY KEY (budget_id, session_id, work)
);
CREATE INDEX budget_entry_position ON budget_entry (budget_id, position);
CREATE INDEX budget_entry_at ON budget_entry (budget_id, at_us);

CREATE TABLE budget_halt (
    session_id TEXT NOT NULL PRIMARY KEY,
    budget_id  TEXT NOT NULL
);
