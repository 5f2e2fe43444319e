-- Schedules (12.1), and what became of each of their nominal times. due_us is when somebody must look at a schedule; 0: never.
-- Of a nominal time there is one row: who would fire it a second time cannot (SC15).
--
-- A monitor stands for its schedule and takes no place of its session's, so the index of counting has the kind, too.

-- +goose Up
CREATE TABLE schedule (
    id         TEXT    NOT NULL PRIMARY KEY,
    session_id TEXT    NOT NULL,
    enabled    BOOLEAN NOT NULL,
    due_us     BIGINT  NOT NULL,
    record     BYTEA   NOT NULL
);
CREATE INDEX schedule_session ON schedule (session_id, id);
CREATE INDEX schedule_due ON schedule (due_us, id) WHERE due_us <> 0;
CREATE INDEX schedule_enabled ON schedule (session_id) WHERE enabled;

CREATE TABLE schedule_fire (
    schedule_id TEXT   NOT NULL,
    nominal_us  BIGINT NOT NULL,
    session_id  TEXT   NOT NULL,
    record      BYTEA  NOT NULL,
    PRIMARY KEY (schedule_id, nominal_us)
);
CREATE INDEX schedule_fire_session ON schedule_fire (session_id);

DROP INDEX task_state;
CREATE INDEX task_state ON task (state, session_id, position, origin, kind);
