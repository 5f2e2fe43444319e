package memory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/webhook"
)

// hooks holds the webhooks and their queue.
type hooks struct {
	webhooks       tree[store.Webhook]
	hookCursors    tree[int64] // by session: the last examined seq of its journal
	hookDeliveries tree[webhook.Delivery]
}

func (v webhookStore) Get(id perdure.WebhookID) (store.Webhook, error) {
	w, ok := v.webhooks.get(string(id))
	if !ok {
		return store.Webhook{}, fmt.Errorf("webhook %s: %w", id, perdure.NotFound)
	}
	return stored(w)
}

// List lists webhooks in the order of their ids.
func (v webhookStore) List() (found []store.Webhook, err error) {
	for _, w := range v.webhooks.from("") {
		if w, err = stored(w); err != nil {
			return nil, err
		}
		found = append(found, w)
	}
	return found, nil
}

func (t webhookStore) Put(w store.Webhook) (store.Webhook, error) {
	err := w.Check()
	if known, _ := t.webhooks.get(string(w.ID)); err == nil && known.Version != w.Version {
		err = fmt.Errorf("%w: version %d was read, but it has changed since", perdure.Conflict, w.Version)
	}
	if err == nil {
		w.Version, w.UpdatedAt = w.Version+1, t.now
		for _, at := range []*time.Time{&w.CreatedAt, &w.FailingSince, &w.FormerUntil} {
			*at = micro(*at)
		}
		w, err = stored(w)
	}
	if err != nil {
		return store.Webhook{}, fmt.Errorf("put webhook %s: %w", w.ID, err)
	}
	t.webhooks = t.webhooks.put(string(w.ID), w)
	return stored(w)
}

// Remove removes a webhook with its deliveries.
func (t webhookStore) Remove(id perdure.WebhookID) (bool, error) {
	there := t.webhooks.has(string(id))
	t.webhooks = t.webhooks.remove(string(id))
	t.hookDeliveries = without(t.hookDeliveries, func(d webhook.Delivery) bool { return d.Webhook == id })
	return there, nil
}

// Spans lists the sessions whose journals have events that were not examined.
func (v webhookStore) Spans(limit int) (found []store.HookSpan, err error) {
	for id, s := range v.sessions.from("") {
		if seq, _ := v.hookCursors.get(id); s.LastSeq > seq {
			found = append(found, store.HookSpan{Session: s.ID, From: seq, To: s.LastSeq})
		}
	}
	return first(found, limit), nil
}

// Move records that a span was examined.
func (t webhookStore) Move(span store.HookSpan) error {
	if span.Session == "" {
		spans, err := t.Webhooks().Spans(0)
		for _, s := range spans {
			t.hookCursors = t.hookCursors.put(string(s.Session), s.To)
		}
		return err
	}
	seq, _ := t.hookCursors.get(string(span.Session))
	if !t.sessions.has(string(span.Session)) || seq != span.From {
		return fmt.Errorf("advance the webhook cursor of %s from %d: %w", span.Session, span.From, perdure.Conflict)
	}
	t.hookCursors = t.hookCursors.put(string(span.Session), span.To)
	return nil
}

func (v webhookStore) Delivery(id perdure.WebhookDeliveryID) (webhook.Delivery, error) {
	d, ok := v.hookDeliveries.get(string(id))
	if !ok {
		return webhook.Delivery{}, fmt.Errorf("delivery %s: %w", id, perdure.NotFound)
	}
	return stored(d)
}

func (v webhookStore) Deliveries(filter store.HookDeliveryFilter) (found []webhook.Delivery, err error) {
	due := micro(filter.DueBy)
	for _, d := range v.hookDeliveries.from("") {
		switch {
		case d.Webhook != filter.Webhook:
			continue
		case !due.IsZero() && (!d.EndedAt.IsZero() || d.DueAt.After(due)):
			continue
		case due.IsZero() && filter.Before != "" && d.ID >= filter.Before:
			continue
		}
		found = append(found, d)
	}
	slices.SortFunc(found, func(a, b webhook.Delivery) int {
		switch {
		case due.IsZero():
			return strings.Compare(string(b.ID), string(a.ID))
		case !a.DueAt.Equal(b.DueAt):
			return a.DueAt.Compare(b.DueAt)
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	found = first(found, filter.Limit)
	for i, d := range found {
		if found[i], err = stored(d); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (t webhookStore) AddDelivery(d webhook.Delivery) (bool, error) {
	if t.hookDeliveries.has(string(d.ID)) {
		return false, nil
	}
	return true, t.putDelivery(d)
}

func (t webhookStore) UpdateDelivery(d webhook.Delivery) error {
	if !t.hookDeliveries.has(string(d.ID)) {
		return fmt.Errorf("delivery %s: %w", d.ID, perdure.NotFound)
	}
	return t.putDelivery(d)
}

func (t *tx) putDelivery(d webhook.Delivery) error {
	for _, at := range []*time.Time{&d.DueAt, &d.CreatedAt, &d.EndedAt} {
		*at = micro(*at)
	}
	d.AttemptLog = slices.Clone(d.AttemptLog)
	for i := range d.AttemptLog {
		d.AttemptLog[i].At = micro(d.AttemptLog[i].At)
	}
	d, err := stored(d)
	if err == nil {
		t.hookDeliveries = t.hookDeliveries.put(string(d.ID), d)
	}
	return err
}

// PruneDeliveries removes deliveries that ended before a moment.
func (t webhookStore) PruneDeliveries(before time.Time, limit int) (n int, err error) {
	left := t.hookDeliveries
	for key, d := range t.hookDeliveries.from("") {
		if d.EndedAt.IsZero() || !d.EndedAt.Before(micro(before)) || limit > 0 && n == limit {
			continue
		}
		left = left.remove(key)
		n++
	}
	t.hookDeliveries = left
	return n, nil
}

// removeHooks removes what webhooks have of a session.
func (t *tx) removeHooks(id perdure.SessionID) {
	t.hookCursors = t.hookCursors.remove(string(id))
	t.hookDeliveries = without(t.hookDeliveries, func(d webhook.Delivery) bool { return d.Session == id })
}
