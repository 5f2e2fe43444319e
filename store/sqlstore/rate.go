package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure/store"
)

// The statements of the rate limit. A transaction that counts holds the lock of the organisation.
const (
	sumOutbound   = `SELECT CAST(COALESCE(SUM(calls), 0) AS BIGINT) FROM outbound WHERE org = $1 AND bucket BETWEEN $2 AND $3`
	countOutbound = `INSERT INTO outbound (org, bucket, calls) VALUES ($1, $2, 1)
		ON CONFLICT (org, bucket) DO UPDATE SET calls = outbound.calls + 1`
	pruneOutbound = `DELETE FROM outbound WHERE org = $1 AND (bucket < $2 OR bucket > $3)`
)

// Outbound counts the calls in the window up to now.
func (tx rateStore) Outbound(org string) (int, error) {
	err := tx.lock(fmt.Sprintf("outbound/%q", org), false)
	var n int64
	if err == nil {
		first, last := store.RateSpan(tx.Now())
		n, err = one(tx.Tx, number, sumOutbound, bytesOf(org), first, last)
	}
	if err != nil {
		return 0, fmt.Errorf("outbound calls of %q: %w", org, err)
	}
	return int(n), nil
}

// CountOutbound counts one more call, if the limit allows it.
func (tx rateStore) CountOutbound(org string, limit int) (bool, error) {
	if err := store.CheckRate(org, limit); err != nil {
		return false, fmt.Errorf("count an outbound call: %w", err)
	}
	n, err := tx.Rates().Outbound(org)
	if err != nil || n >= limit {
		return false, err
	}
	first, last := store.RateSpan(tx.Now())
	if _, err = tx.exec(countOutbound, bytesOf(org), last); err == nil {
		_, err = tx.exec(pruneOutbound, bytesOf(org), first, last)
	}
	return wrapped(true, err, "count an outbound call of %q", org)
}
