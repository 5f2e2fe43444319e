package memory

import (
	"fmt"

	"github.com/perdure/perdure/store"
)

// Outbound counts the calls in the window up to now.
func (v rateStore) Outbound(org string) (n int, err error) {
	buckets, _ := v.outbound.get(org)
	first, last := store.RateSpan(v.now)
	for bucket, calls := range buckets {
		if first <= bucket && bucket <= last {
			n += calls
		}
	}
	return n, nil
}

// CountOutbound counts one more call, unless the limit is reached.
func (t rateStore) CountOutbound(org string, limit int) (bool, error) {
	if err := store.CheckRate(org, limit); err != nil {
		return false, fmt.Errorf("count an outbound call: %w", err)
	}
	n, err := t.Rates().Outbound(org)
	if err != nil || n >= limit {
		return false, err
	}
	first, last := store.RateSpan(t.now)
	buckets, _ := t.outbound.get(org)
	next := map[int64]int{last: 1}
	for bucket, calls := range buckets {
		if first <= bucket && bucket <= last {
			next[bucket] += calls
		}
	}
	t.outbound = t.outbound.put(org, next)
	return true, nil
}
