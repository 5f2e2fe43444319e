-- Whose a user's connection is, and a leased resource: of an org, as a session is (0015). A name of a user, and of a resource at its
-- provider, means nothing outside of the org. What was there before is of the default org, and a lease of the org of the session
-- that made it, as long as that is there.

-- +goose Up
ALTER TABLE user_connection RENAME TO user_connection_before;

CREATE TABLE user_connection (
    org        TEXT   NOT NULL,
    user_id    BYTEA  NOT NULL,
    provider   BYTEA  NOT NULL,
    sealed     BYTEA  NOT NULL,
    owner_id   BYTEA  NOT NULL,
    metadata   BYTEA  NOT NULL,
    version    BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (org, user_id, provider)
);

INSERT INTO user_connection (org, user_id, provider, sealed, owner_id, metadata, version, created_us, updated_us)
    SELECT '', user_id, provider, sealed, owner_id, metadata, version, created_us, updated_us FROM user_connection_before;

DROP TABLE user_connection_before;

ALTER TABLE lease ADD COLUMN org TEXT NOT NULL DEFAULT '';
UPDATE lease SET org = COALESCE((SELECT session.org FROM session WHERE session.id = lease.session_id), '');
DROP INDEX lease_key;
CREATE UNIQUE INDEX lease_key ON lease (org, provider, resource_type, external_id);
