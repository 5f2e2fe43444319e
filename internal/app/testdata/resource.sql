INSERT INTO resource (session_id, resource_id, position, kind, name, status, metadata, task_id, created_us, updated_us)
VALUES ($1, CAST('box' AS BLOB), 1, CAST('sandbox' AS BLOB), CAST('a box' AS BLOB), 'active', CAST('' AS BLOB), '', 1, 1)
