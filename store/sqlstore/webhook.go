package sqlstore

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/webhook"
)

// The statements of webhooks. A transaction that reads a webhook holds the lock of all of them.
const (
	selectWebhook = `SELECT record FROM webhook WHERE id = $1`
	listWebhooks  = `SELECT record FROM webhook ORDER BY id`
	insertWebhook = `INSERT INTO webhook (id, version, record) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`
	updateWebhook = `UPDATE webhook SET version = $2, record = $3 WHERE id = $1 AND version = $4`
	removeWebhook = `DELETE FROM webhook WHERE id = $1`

	listHookSpans = `SELECT s.id, COALESCE(c.seq, 0), s.last_seq FROM session s LEFT JOIN webhook_cursor c ON c.session_id = s.id
		WHERE s.last_seq > COALESCE(c.seq, 0) ORDER BY s.id LIMIT $1`
	moveAllHooks = `INSERT INTO webhook_cursor (session_id, seq) SELECT id, last_seq FROM session WHERE last_seq > 0
		ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq`
	beginHooks = `INSERT INTO webhook_cursor (session_id, seq) SELECT id, CAST($2 AS BIGINT) FROM session WHERE id = $1
		ON CONFLICT (session_id) DO NOTHING`
	moveHooks   = `UPDATE webhook_cursor SET seq = $2 WHERE session_id = $1 AND seq = $3`
	removeHooks = `DELETE FROM webhook_cursor WHERE session_id = $1`

	selectHookDelivery   = `SELECT record FROM webhook_delivery WHERE id = $1`
	listHookDeliveries   = `SELECT record FROM webhook_delivery WHERE webhook_id = $1 ORDER BY id DESC LIMIT $2`
	listOlderDeliveries  = `SELECT record FROM webhook_delivery WHERE webhook_id = $1 AND id < $3 ORDER BY id DESC LIMIT $2`
	listDueDeliveries    = `SELECT record FROM webhook_delivery WHERE webhook_id = $1 AND ended_us = 0 AND due_us <= $3 ORDER BY due_us, id LIMIT $2`
	insertHookDelivery   = `INSERT INTO webhook_delivery (id, webhook_id, session_id, due_us, ended_us, record) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING`
	updateHookDelivery   = `UPDATE webhook_delivery SET due_us = $2, ended_us = $3, record = $4 WHERE id = $1`
	pruneHookDeliveries  = `DELETE FROM webhook_delivery WHERE id IN (SELECT id FROM webhook_delivery WHERE ended_us <> 0 AND ended_us < $1 ORDER BY ended_us LIMIT $2)`
	removeOfWebhook      = `DELETE FROM webhook_delivery WHERE webhook_id = $1`
	removeHookDeliveries = `DELETE FROM webhook_delivery WHERE session_id = $1`
)

// lockHooks excludes other transactions from webhooks until the end of this one.
func (tx *Tx) lockHooks() error { return tx.lock("webhooks", false) }

func (tx webhookStore) Get(id perdure.WebhookID) (w store.Webhook, err error) {
	if err = tx.lockHooks(); err == nil {
		w, err = one(tx.Tx, scanRecord[store.Webhook], selectWebhook, id)
	}
	return wrapped(w, err, "webhook %s", id)
}

func (tx webhookStore) List() (found []store.Webhook, err error) {
	if err = tx.lockHooks(); err == nil {
		found, err = list(tx.Tx, scanRecord[store.Webhook], listWebhooks)
	}
	return wrapped(found, err, "list webhooks")
}

func (tx webhookStore) Put(w store.Webhook) (store.Webhook, error) {
	err := w.Check()
	if err == nil {
		err = tx.lockHooks()
	}
	was := w.Version
	w.Version, w.UpdatedAt = was+1, tx.Now()
	for _, at := range []*time.Time{&w.CreatedAt, &w.FailingSince, &w.FormerUntil} {
		*at = micro(*at)
	}
	var record []byte
	if err == nil {
		record, err = encode(w)
	}
	var n int64
	switch {
	case err != nil:
	case was == 0:
		n, err = tx.exec(insertWebhook, w.ID, w.Version, record)
	default:
		n, err = tx.exec(updateWebhook, w.ID, w.Version, record, was)
	}
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: version %d was read, but it has changed since", perdure.Conflict, was)
	}
	return wrapped(w, err, "put webhook %s", w.ID)
}

// Remove removes a webhook with its deliveries.
func (tx webhookStore) Remove(id perdure.WebhookID) (bool, error) {
	err := tx.lockHooks()
	var n int64
	if err == nil {
		n, err = tx.exec(removeWebhook, id)
	}
	if err == nil {
		_, err = tx.exec(removeOfWebhook, id)
	}
	return wrapped(n > 0, err, "remove webhook %s", id)
}

// Spans lists the sessions whose journals have unprocessed events.
func (tx webhookStore) Spans(limit int) ([]store.HookSpan, error) {
	found, err := list(tx.Tx, func(r row) (s store.HookSpan, err error) {
		err = r.Scan(&s.Session, &s.From, &s.To)
		return s, err
	}, listHookSpans, orAll(limit))
	return wrapped(found, err, "list unprocessed events")
}

// Move records that a span was processed.
func (tx webhookStore) Move(span store.HookSpan) error {
	err := tx.lockHooks()
	n := int64(1)
	switch {
	case err != nil:
	case span.Session == "":
		_, err = tx.exec(moveAllHooks)
	case span.From == 0:
		n, err = tx.exec(beginHooks, span.Session, span.To)
	default:
		n, err = tx.exec(moveHooks, span.Session, span.To, span.From)
	}
	if err == nil && n == 0 {
		err = perdure.Conflict
	}
	return wrap(err, "advance the webhook cursor of %s from %d", span.Session, span.From)
}

func (tx webhookStore) Delivery(id perdure.WebhookDeliveryID) (webhook.Delivery, error) {
	d, err := one(tx.Tx, scanRecord[webhook.Delivery], tx.locked(selectHookDelivery), id)
	return wrapped(d, err, "delivery %s", id)
}

func (tx webhookStore) Deliveries(filter store.HookDeliveryFilter) ([]webhook.Delivery, error) {
	query, args := listHookDeliveries, []any{filter.Webhook, orAll(filter.Limit)}
	switch {
	case !filter.DueBy.IsZero():
		query, args = tx.locked(listDueDeliveries), append(args, micros(filter.DueBy))
	case filter.Before != "":
		query, args = listOlderDeliveries, append(args, filter.Before)
	}
	found, err := list(tx.Tx, scanRecord[webhook.Delivery], query, args...)
	return wrapped(found, err, "list the deliveries of %s", filter.Webhook)
}

func (tx webhookStore) AddDelivery(d webhook.Delivery) (bool, error) {
	d = deliveryInMicros(d)
	record, err := encode(d)
	var n int64
	if err == nil {
		n, err = tx.exec(insertHookDelivery, d.ID, d.Webhook, d.Session, micros(d.DueAt), micros(d.EndedAt), record)
	}
	return wrapped(n > 0, err, "queue delivery %s", d.ID)
}

func (tx webhookStore) UpdateDelivery(d webhook.Delivery) error {
	d = deliveryInMicros(d)
	record, err := encode(d)
	var n int64
	if err == nil {
		n, err = tx.exec(updateHookDelivery, d.ID, micros(d.DueAt), micros(d.EndedAt), record)
	}
	if err == nil && n == 0 {
		err = perdure.NotFound
	}
	return wrap(err, "delivery %s", d.ID)
}

// PruneDeliveries removes deliveries that ended before a time.
func (tx webhookStore) PruneDeliveries(before time.Time, limit int) (int, error) {
	n, err := tx.exec(pruneHookDeliveries, micros(before), orAll(limit))
	if err != nil {
		return 0, fmt.Errorf("prune deliveries: %w", err)
	}
	return int(n), nil
}

// deliveryInMicros truncates the times of a delivery to microseconds.
func deliveryInMicros(d webhook.Delivery) webhook.Delivery {
	for _, at := range []*time.Time{&d.DueAt, &d.CreatedAt, &d.EndedAt} {
		*at = micro(*at)
	}
	d.AttemptLog = append([]webhook.Attempt(nil), d.AttemptLog...)
	for i := range d.AttemptLog {
		d.AttemptLog[i].At = micro(d.AttemptLog[i].At)
	}
	return d
}

// skipHooks lets webhooks start after the events that a session was restored with.
func (tx *Tx) skipHooks(session perdure.SessionID, last int64) error {
	if last == 0 {
		return nil
	}
	_, err := tx.exec(beginHooks, session, last)
	return err
}
