-- The first schema. Moments are microseconds since 1970 in columns named …_us, 0 where there is none.
-- BYTEA is for whatever came from outside, TEXT for our own ids and words. A position is the order in
-- which rows were added. Partial indexes repeat the words of the statements that use them.

-- +goose Up
CREATE TABLE session (
    id         TEXT   NOT NULL PRIMARY KEY,
    title      BYTEA  NOT NULL,
    status     TEXT   NOT NULL,
    last_seq   BIGINT NOT NULL,
    epoch      BIGINT NOT NULL,
    worker_id  TEXT   NOT NULL,
    take_ups   BIGINT NOT NULL,
    taken_seq  BIGINT NOT NULL,
    secret     BYTEA  NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL
);
CREATE INDEX session_created ON session (created_us, id);
CREATE INDEX session_unrested ON session (created_us, id) WHERE worker_id <> '';

CREATE TABLE snapshot (
    session_id TEXT   NOT NULL PRIMARY KEY,
    seq        BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    body       BYTEA  NOT NULL
);

CREATE TABLE event (
    session_id TEXT   NOT NULL REFERENCES session (id),
    seq        BIGINT NOT NULL,
    id         TEXT   NOT NULL UNIQUE,
    type       TEXT   NOT NULL,
    at_us      BIGINT NOT NULL,
    body       BYTEA  NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE call (
    session_id  TEXT   NOT NULL,
    call_id     BYTEA  NOT NULL,
    position    BIGINT NOT NULL,
    turn_id     TEXT   NOT NULL,
    task_id     TEXT   NOT NULL,
    attempt     BIGINT NOT NULL,
    tool        BYTEA  NOT NULL,
    args        BYTEA  NOT NULL,
    fingerprint TEXT   NOT NULL,
    class       TEXT   NOT NULL,
    state       TEXT   NOT NULL,
    token       TEXT   NOT NULL,
    worker_id   TEXT   NOT NULL,
    epoch       BIGINT NOT NULL,
    executions  BIGINT NOT NULL,
    result      BYTEA,
    resolved_by BYTEA  NOT NULL,
    claimed_us  BIGINT NOT NULL,
    settled_us  BIGINT NOT NULL,
    PRIMARY KEY (session_id, call_id)
);
CREATE INDEX call_position ON call (position);
CREATE INDEX call_running ON call (position) WHERE state = 'running';

CREATE TABLE task (
    id           TEXT   NOT NULL PRIMARY KEY,
    session_id   TEXT   NOT NULL,
    position     BIGINT NOT NULL,
    kind         TEXT   NOT NULL,
    state        TEXT   NOT NULL,
    worker_id    TEXT   NOT NULL,
    attempt      BIGINT NOT NULL,
    heartbeat_us BIGINT NOT NULL,
    record       BYTEA  NOT NULL
);
CREATE INDEX task_position ON task (position);
CREATE INDEX task_session ON task (session_id, position);
CREATE INDEX task_live ON task (position) WHERE state IN ('queued', 'running', 'awaiting_input');
CREATE INDEX task_worker ON task (worker_id, position) WHERE state IN ('queued', 'running', 'awaiting_input');

CREATE TABLE task_message (
    id          TEXT   NOT NULL PRIMARY KEY,
    task_id     TEXT   NOT NULL,
    position    BIGINT NOT NULL,
    direction   TEXT   NOT NULL,
    body        BYTEA  NOT NULL,
    data        BYTEA  NOT NULL,
    in_reply_to TEXT   NOT NULL,
    created_us  BIGINT NOT NULL
);
CREATE INDEX task_message_position ON task_message (task_id, position);

CREATE TABLE task_log (
    task_id     TEXT   NOT NULL REFERENCES task (id),
    byte_offset BIGINT NOT NULL,
    size_bytes  BIGINT NOT NULL,
    stream      BYTEA  NOT NULL,
    attempt     BIGINT NOT NULL,
    at_us       BIGINT NOT NULL,
    body        BYTEA  NOT NULL,
    PRIMARY KEY (task_id, byte_offset)
);

CREATE TABLE delivery (
    task_id    TEXT    NOT NULL,
    attempt    BIGINT  NOT NULL,
    state      TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    position   BIGINT  NOT NULL,
    settled_us BIGINT  NOT NULL,
    claimed    BOOLEAN NOT NULL,
    PRIMARY KEY (task_id, attempt, state)
);
CREATE INDEX delivery_position ON delivery (position);
CREATE INDEX delivery_pending ON delivery (position) WHERE NOT claimed;
CREATE INDEX delivery_session ON delivery (session_id, position) WHERE NOT claimed;

CREATE TABLE file (
    session_id TEXT    NOT NULL,
    path       BYTEA   NOT NULL,
    parent     BYTEA   NOT NULL,
    directory  BOOLEAN NOT NULL,
    read_only  BOOLEAN NOT NULL,
    encoding   TEXT    NOT NULL,
    size_bytes BIGINT  NOT NULL,
    created_us BIGINT  NOT NULL,
    updated_us BIGINT  NOT NULL,
    content    BYTEA   NOT NULL,
    PRIMARY KEY (session_id, path)
);
CREATE INDEX file_parent ON file (session_id, parent, path);

CREATE TABLE worker (
    id         TEXT   NOT NULL PRIMARY KEY,
    host       BYTEA  NOT NULL,
    boot_id    BYTEA  NOT NULL,
    pid        BIGINT NOT NULL,
    started_us BIGINT NOT NULL,
    lease_us   BIGINT NOT NULL
);
