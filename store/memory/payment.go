package memory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v paymentStore) Get(hash string) (store.Payment, error) {
	last, ok := v.lastPayment(hash)
	if !ok {
		return store.Payment{}, fmt.Errorf("payment %q: %w", hash, perdure.NotFound)
	}
	return last.value.At(v.now), nil
}

// List lists attempts, the newest first.
func (v paymentStore) List(filter store.PaymentFilter) ([]store.Payment, error) {
	if filter.State != "" && !filter.State.Valid() {
		return nil, fmt.Errorf("list payments: %w state %q", perdure.Invalid, filter.State)
	}
	var rows []row[store.Payment]
	for _, r := range v.payments.from("") {
		r.value = r.value.At(v.now)
		p := r.value
		if (!filter.OneOrg || p.Org == filter.Org) && (filter.Session == "" || p.Session == filter.Session) &&
			(filter.State == "" || p.State == filter.State) {
			rows = append(rows, r)
		}
	}
	found := inOrder(rows)
	slices.Reverse(found)
	return first(found, filter.Limit), nil
}

// Sum adds up the attempts in scope that count.
func (v paymentStore) Sum(scope store.PaymentScope) (sum int64, err error) {
	for _, r := range v.payments.from("") {
		p := r.value
		if p.Org == scope.Org && p.Currency == scope.Currency && (scope.Turn == "" || p.Turn == scope.Turn) &&
			p.State != store.PaymentRefused &&
			(scope.Since.IsZero() || p.CreatedAt.After(micro(scope.Since))) {
			sum += p.Micros
		}
	}
	return sum, nil
}

func (t paymentStore) Add(p store.Payment, d time.Duration) (store.Payment, error) {
	err := p.Check()
	if err == nil {
		last, _ := t.lastPayment(p.Hash)
		err = p.Follows(last.value)
	}
	if err != nil {
		return store.Payment{}, fmt.Errorf("add payment %q: %w", p.Hash, err)
	}
	p.State, p.Receipt, p.Note, p.ResolvedBy = store.PaymentInFlight, "", "", ""
	p.CreatedAt, p.Until, p.SettledAt = t.now, micro(t.now.Add(d)), time.Time{}
	t.payments = t.payments.put(paymentKey(p.Hash, p.Attempt), row[store.Payment]{t.nextPosition(), p})
	return p, nil
}

func (t paymentStore) Settle(end store.PaymentEnd) (store.Payment, error) {
	r, ok := t.payments.get(paymentKey(end.Hash, end.Attempt))
	err := end.Check()
	if err == nil && !ok {
		err = perdure.NotFound
	}
	if err == nil {
		r.value, err = end.Apply(r.value, t.now)
	}
	if err != nil {
		return store.Payment{}, fmt.Errorf("settle payment %q: %w", end.Hash, err)
	}
	t.payments = t.payments.put(paymentKey(end.Hash, end.Attempt), r)
	return r.value, nil
}

// lastPayment returns the last attempt of a request.
func (v *tx) lastPayment(hash string) (last row[store.Payment], ok bool) {
	prefix := requestKey(hash, "")
	for key, r := range v.payments.from(prefix) {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		last, ok = r, true
	}
	return last, ok
}

// paymentKey orders attempts by request, and those of one request by number.
func paymentKey(hash string, attempt int) string {
	return requestKey(hash, fmt.Sprintf("%010d", attempt))
}
