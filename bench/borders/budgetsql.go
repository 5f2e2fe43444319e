package main

// The minimal SQL for a limit that is never exceeded.
const (
	bareTable   = `CREATE TABLE bare_budget (id BIGINT PRIMARY KEY, limit_um BIGINT NOT NULL, spent_um BIGINT NOT NULL, reserved_um BIGINT NOT NULL)`
	bareAccount = `INSERT INTO bare_budget (id, limit_um, spent_um, reserved_um) VALUES (1, 1000000000000, 0, 0)`
	bareReserve = `UPDATE bare_budget SET reserved_um = reserved_um + $1 WHERE id = 1 AND limit_um - spent_um - reserved_um >= $1`
	bareSettle  = `UPDATE bare_budget SET reserved_um = reserved_um - $1, spent_um = spent_um + $1 WHERE id = 1`
)
