package sqlstore

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const (
	paymentColumns = `hash, attempt, token, org, session_id, turn, call_id, tool, capability, host, operation, currency, micros,
	approved_by, state, receipt, note, resolved_by, created_us, until_us, settled_us`

	addPaymentValues = `$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21`
)

// The statements of payment attempts. A transaction that adds an attempt of a request holds the
// lock of its hash; one that adds attempts up holds the lock of their organisation. Both come after
// the session's lock.
const (
	selectPayment = `SELECT ` + paymentColumns + ` FROM payment WHERE hash = $1 ORDER BY attempt DESC LIMIT 1`
	selectOneTry  = `SELECT ` + paymentColumns + ` FROM payment WHERE hash = $1 AND attempt = $2`
	listPayments  = `SELECT ` + paymentColumns + ` FROM payment WHERE ($1 = 0 OR org = $2) AND ($3 = '' OR session_id = $3)
		AND ($4 = '' OR $4 = CASE WHEN state = 'in_flight' AND until_us <= $5 THEN 'unknown' ELSE state END)
		ORDER BY position DESC LIMIT $6`
	sumPayments = `SELECT CAST(COALESCE(SUM(micros), 0) AS BIGINT) FROM payment
		WHERE org = $1 AND currency = $2 AND created_us > $3 AND state <> 'refused'`
	sumTurn = `SELECT CAST(COALESCE(SUM(micros), 0) AS BIGINT) FROM payment
		WHERE org = $1 AND currency = $2 AND created_us > $3 AND turn = $4 AND state <> 'refused'`
	addPayment = `INSERT INTO payment (` + paymentColumns + `, position)
		VALUES (` + addPaymentValues + `, (SELECT COALESCE(MAX(position), 0) + 1 FROM payment))`
	addPaymentNext = `INSERT INTO payment (` + paymentColumns + `, position) VALUES (` + addPaymentValues + `, ` +
		positionNext + `)`
	settlePayment  = `UPDATE payment SET state = $3, receipt = $4, note = $5, resolved_by = $6, settled_us = $7 WHERE hash = $1 AND attempt = $2`
	orphanPayments = `UPDATE payment SET session_id = '' WHERE session_id = $1` // a payment outlives its session
)

func (tx paymentStore) Get(hash string) (store.Payment, error) {
	p, err := tx.lastPayment(hash)
	if err != nil {
		return store.Payment{}, fmt.Errorf("payment %q: %w", hash, err)
	}
	return p.At(tx.Now()), nil
}

// lastPayment reads the last attempt of a request, under the lock of the request.
func (tx *Tx) lastPayment(hash string) (store.Payment, error) {
	if err := tx.lock(fmt.Sprintf("payment/%q", hash), false); err != nil {
		return store.Payment{}, err
	}
	return one(tx, scanPayment, selectPayment, bytesOf(hash))
}

// List lists attempts, the newest first.
func (tx paymentStore) List(filter store.PaymentFilter) ([]store.Payment, error) {
	if filter.State != "" && !filter.State.Valid() {
		return nil, fmt.Errorf("list payments: %w state %q", perdure.Invalid, filter.State)
	}
	one, now := 0, tx.Now()
	if filter.OneOrg {
		one = 1
	}
	found, err := list(tx.Tx, scanPayment, listPayments, one, bytesOf(filter.Org), filter.Session, filter.State,
		micros(now), orAll(filter.Limit))
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	for i := range found {
		found[i] = found[i].At(now)
	}
	return found, nil
}

// Sum adds up the attempts that were not refused.
func (tx paymentStore) Sum(scope store.PaymentScope) (sum int64, err error) {
	if err = tx.lock(fmt.Sprintf("payments/%q", scope.Org), false); err != nil {
		return 0, fmt.Errorf("add up payments: %w", err)
	}
	since := micros(scope.Since)
	if scope.Turn == "" {
		sum, err = one(tx.Tx, number, sumPayments, bytesOf(scope.Org), bytesOf(scope.Currency), since)
	} else {
		sum, err = one(tx.Tx, number, sumTurn, bytesOf(scope.Org), bytesOf(scope.Currency), since, bytesOf(scope.Turn))
	}
	return wrapped(sum, err, "add up payments")
}

func (tx paymentStore) Add(p store.Payment, d time.Duration) (store.Payment, error) {
	err := p.Check()
	if err == nil {
		err = tx.lock(fmt.Sprintf("payments/%q", p.Org), false) // excludes transactions that add up the attempts
	}
	if err == nil {
		var last store.Payment
		if last, err = tx.lastPayment(p.Hash); err == nil || missing(err) {
			err = p.Follows(last)
		}
	}
	if err != nil {
		return store.Payment{}, fmt.Errorf("add payment %q: %w", p.Hash, err)
	}
	now := tx.Now()
	p.State, p.Receipt, p.Note, p.ResolvedBy = store.PaymentInFlight, "", "", ""
	p.CreatedAt, p.Until, p.SettledAt = now, micro(now.Add(d)), time.Time{}
	_, err = tx.exec(tx.withPosition(addPayment, addPaymentNext), bytesOf(p.Hash), p.Attempt, p.Token, bytesOf(p.Org),
		p.Session, bytesOf(p.Turn), bytesOf(p.Call),
		bytesOf(p.Tool), bytesOf(p.Capability), bytesOf(p.Host), bytesOf(p.Operation), bytesOf(p.Currency), p.Micros,
		bytesOf(p.ApprovedBy), p.State, bytesOf(""), bytesOf(""), bytesOf(""), micros(p.CreatedAt), micros(p.Until), int64(0))
	return wrapped(p, err, "add payment %q", p.Hash)
}

func (tx paymentStore) Settle(end store.PaymentEnd) (store.Payment, error) {
	err := end.Check()
	var p store.Payment
	if err == nil {
		p, err = one(tx.Tx, scanPayment, tx.locked(selectOneTry), bytesOf(end.Hash), end.Attempt)
	}
	if err == nil {
		p, err = end.Apply(p, tx.Now())
	}
	if err == nil {
		_, err = tx.exec(settlePayment, bytesOf(p.Hash), p.Attempt, p.State, bytesOf(p.Receipt), bytesOf(p.Note),
			bytesOf(p.ResolvedBy), micros(p.SettledAt))
	}
	return wrapped(p, err, "settle payment %q", end.Hash)
}

// scanPayment reads an attempt. An unknown state is an error that names the row, never a default.
func scanPayment(r row) (p store.Payment, err error) {
	var hash, org, turn, call, tool, capability, host, operation, currency, by, receipt, note, resolved []byte
	var created, until, settled int64
	err = r.Scan(&hash, &p.Attempt, &p.Token, &org, &p.Session, &turn, &call, &tool, &capability, &host, &operation,
		&currency, &p.Micros,
		&by, &p.State, &receipt, &note, &resolved, &created, &until, &settled)
	if err != nil {
		return store.Payment{}, err
	}
	p.Hash, p.Org, p.Turn, p.Call, p.Tool = string(hash), string(org), string(turn), perdure.CallID(call), string(tool)
	p.Capability, p.Host, p.Operation, p.Currency = string(capability), string(host), string(operation),
		string(currency)
	p.ApprovedBy, p.Receipt, p.Note, p.ResolvedBy = string(by), string(receipt), string(note), string(resolved)
	p.CreatedAt, p.Until, p.SettledAt = moment(created), moment(until), moment(settled)
	if !p.State.Valid() {
		return store.Payment{}, fmt.Errorf("attempt %d of payment %q: its stored state %q is not known", p.Attempt,
			p.Hash, p.State)
	}
	return p, nil
}
