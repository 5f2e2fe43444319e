INSERT INTO payment (hash, attempt, position, token, org, session_id, turn, call_id, tool, capability, host, operation, currency, micros,
    approved_by, state, receipt, note, resolved_by, created_us, until_us, settled_us)
VALUES (CAST('5ada' AS BLOB), 1, 1, 'token', CAST('' AS BLOB), $1, CAST('turn_1' AS BLOB), CAST('call_1' AS BLOB), CAST('buy' AS BLOB),
    CAST('news' AS BLOB), CAST('news.example.com' AS BLOB), CAST('buy' AS BLOB), CAST('usd' AS BLOB), 250000, CAST('' AS BLOB), 'unknown',
    CAST('' AS BLOB), CAST('no answer' AS BLOB), CAST('' AS BLOB), 1, 1, 0)
