package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	hook "github.com/perdure/perdure/webhook"
)

// spansPerRound is how many journals are read before due deliveries are sent.
const spansPerRound = 64

// list reads which journals have new events. All of them are in one list, and none is repeated
// before the others had their turn, so that a journal that grows all the time does not starve the
// rest.
func (s *Sender) list(ctx context.Context) error {
	err := s.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		s.spans, err = r.Webhooks().Spans(0)
		return err
	})
	if err != nil {
		s.spans = nil
		return err
	}
	if err := s.pruneDeletedSessions(ctx); err != nil {
		return err
	}
	for id := range s.unreadable {
		if !slices.ContainsFunc(s.spans, func(span store.HookSpan) bool { return span.Session == id }) {
			delete(s.unreadable, id)
		}
	}
	return nil
}

// pruneDeletedSessions removes the positions of deleted sessions from the webhook rows: a later
// session may have the same id.
func (s *Sender) pruneDeletedSessions(ctx context.Context) error {
	gone := map[perdure.SessionID]bool{}
	err := s.cfg.Store.View(ctx, func(r store.Reader) error {
		hooks, err := r.Webhooks().List()
		clear(gone)
		for _, w := range hooks {
			for id := range w.From {
				if _, err := r.Sessions().Get(id); errors.Is(err, perdure.NotFound) {
					gone[id] = true
				} else if err != nil {
					return err
				}
			}
		}
		return err
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		hooks, err := tx.Webhooks().List()
		for _, w := range hooks {
			noted := len(w.From)
			maps.DeleteFunc(w.From, func(id perdure.SessionID, _ int64) bool { return gone[id] })
			if err == nil && len(w.From) < noted {
				_, err = tx.Webhooks().Put(w)
			}
		}
		return err
	})
}

// queue turns the new events in some of the listed journals into deliveries. A journal that cannot
// be read is left until the next list; the others are not affected.
func (s *Sender) queue(ctx context.Context) error {
	for range min(len(s.spans), spansPerRound) {
		span := s.spans[0]
		s.spans = s.spans[1:]
		to, err := s.queueOf(ctx, span)
		switch {
		case err == nil:
			delete(s.unreadable, span.Session)
			if span.From < to && to < span.To { // the rest of a long journal comes after the others
				s.spans = append(s.spans, store.HookSpan{Session: span.Session, From: to, To: span.To})
			}
		case ctx.Err() != nil || store.Broken(err):
			return err
		case !s.unreadable[span.Session]: // logged once per session
			s.unreadable[span.Session] = true
			s.cfg.Log.Warn("events of a session not queued for webhooks; retried with the next poll", "session", span.Session, "error", err)
		}
	}
	return nil
}

// queueOf turns one page of a journal into deliveries and returns the position that it reached; 0:
// there was nothing to do. The cursor moves in the same commit, so that each event is handled once:
// of two senders that read the same page, one gets a conflict.
func (s *Sender) queueOf(ctx context.Context, span store.HookSpan) (to int64, err error) {
	var events []perdure.Event
	var row store.Session
	err = s.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if row, err = r.Sessions().Get(span.Session); err == nil {
			events, err = r.Journal().Events(span.Session, span.From, store.Page)
		}
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		return 0, nil // the session was removed
	}
	if err != nil || len(events) == 0 {
		return 0, err
	}
	span.To = events[len(events)-1].Seq
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		hooks, err := tx.Webhooks().List() // before the cursor moves, so that no webhook is created in between
		if err == nil {
			err = tx.Webhooks().Move(span)
		}
		if err != nil {
			return err
		}
		for _, w := range hooks {
			if err := queueFor(tx, w, journalPage{span, hook.EventSession{Org: row.Org, Labels: row.Labels}, events}); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, perdure.Conflict) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("queue events of session %s for webhooks: %w", span.Session, err)
	}
	return span.To, nil
}

// journalPage is one page of a journal.
type journalPage struct {
	span   store.HookSpan
	from   hook.EventSession
	events []perdure.Event
}

// queueFor queues the page for one webhook. Events from before the webhook was enabled are skipped.
func queueFor(tx store.Tx, w store.Webhook, l journalPage) error {
	from, late := w.From[l.span.Session]
	for _, e := range l.events {
		if e.Seq <= from || !w.Wants(l.from, e) {
			continue
		}
		if _, err := tx.Webhooks().AddDelivery(hook.NewDelivery(w.ID, e, tx.Now())); err != nil {
			return err
		}
	}
	if late && l.span.To >= from {
		delete(w.From, l.span.Session)
		if _, err := tx.Webhooks().Put(w); err != nil {
			return err
		}
	}
	return nil
}

// startFromNow makes a webhook receive the events from now on. Without another enabled webhook the
// cursors of all journals jump to the end, since nobody needs the events before. Otherwise the
// other webhooks still need them, and begin notes in the row how far each unread journal reaches at
// this moment.
func startFromNow(tx store.Tx, w *store.Webhook) error {
	all, err := tx.Webhooks().List()
	if err != nil {
		return err
	}
	served := false
	for _, other := range all {
		served = served || other.Enabled && other.ID != w.ID
	}
	if w.From = nil; !served {
		return tx.Webhooks().Move(store.HookSpan{})
	}
	spans, err := tx.Webhooks().Spans(0)
	if err != nil || len(spans) == 0 {
		return err
	}
	w.From = map[perdure.SessionID]int64{}
	for _, span := range spans {
		w.From[span.Session] = span.To
	}
	return nil
}

// claimedDelivery is a delivery that this process is about to try, with what the try needs.
type claimedDelivery struct {
	hook     store.Webhook
	delivery hook.Delivery
	slot     *slot
}

// slot is the slot of one try. A slow try frees its slot before it ends, so that many endpoints
// that do not answer cannot block the others; it still counts against the limit of its own endpoint
// until it ends.
type slot struct {
	failing bool // the endpoint's last try failed
	freed   bool // guarded by Sender.mu
}

// claim takes due deliveries for which there is a slot. The commit comes before the send: the row
// then says how many tries began, and when the delivery is due again if this process never settles
// it. An endpoint whose last try failed has one slot, and all failing endpoints share half of the
// slots, so that they do not delay the others.
func (s *Sender) claim(ctx context.Context, hooks []store.Webhook) (all []claimedDelivery, err error) {
	due, err := s.anyDue(ctx, hooks)
	if err != nil || !due {
		return nil, err
	}
	s.turn++
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s.endTries(all) // claimed by a run of the transaction that was retried
		all = nil
		hooks, err := tx.Webhooks().List()
		if err != nil {
			return err
		}
		for _, limit := range []int{1, maxSlotsPerHook} { // each webhook gets one before any gets more
			for i := range hooks {
				w := hooks[(i+s.turn)%len(hooks)]
				if !w.Enabled {
					continue
				}
				taken, err := s.claimOf(tx, w, limit)
				all = append(all, taken...)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		s.endTries(all)
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return all, nil
}

// anyDue reports whether a delivery is due for which there is a slot.
func (s *Sender) anyDue(ctx context.Context, hooks []store.Webhook) (due bool, err error) {
	err = s.cfg.Store.View(ctx, func(r store.Reader) error {
		due = false
		for _, w := range hooks {
			if s.freeSlots(w) == 0 {
				continue
			}
			found, err := r.Webhooks().Deliveries(store.HookDeliveryFilter{Webhook: w.ID, DueBy: r.Now(), Limit: 1})
			if err != nil || len(found) > 0 {
				due = len(found) > 0
				return err
			}
		}
		return nil
	})
	return due, err
}

// claimOf claims up to most due deliveries of one webhook.
func (s *Sender) claimOf(tx store.Tx, w store.Webhook, limit int) (taken []claimedDelivery, err error) {
	n := min(s.freeSlots(w), limit)
	if n == 0 {
		return nil, nil
	}
	found, err := tx.Webhooks().Deliveries(store.HookDeliveryFilter{Webhook: w.ID, DueBy: tx.Now(), Limit: n})
	for _, d := range found {
		if err != nil {
			break
		}
		if d.Attempts >= hook.MaxAttempts() { // the process ended during the last try
			d.State, d.Sending, d.DueAt, d.EndedAt = hook.Failed, false, tx.Now(), tx.Now()
			err = tx.Webhooks().UpdateDelivery(d)
			continue
		}
		d.Attempts, d.Sending, d.DueAt = d.Attempts+1, true, tx.Now().Add(s.lease())
		if err = tx.Webhooks().UpdateDelivery(d); err == nil {
			taken = append(taken, claimedDelivery{w, d, s.acquireSlot(w)})
		}
	}
	return taken, err
}

// freeSlots returns how many more slots a webhook may have.
func (s *Sender) freeSlots(w store.Webhook) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, each := maxSlots-s.total, maxSlotsPerHook
	if w.Failures > 0 {
		left, each = min(left, maxFailingSlots-s.failing), 1
	}
	return max(min(left, each-s.sending[w.ID]), 0)
}

// acquireSlot takes a slot.
func (s *Sender) acquireSlot(w store.Webhook) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &slot{failing: w.Failures > 0}
	s.sending[w.ID]++
	s.total++
	if p.failing {
		s.failing++
	}
	return p
}

// freeSlot frees a slot. The second call for the same slot does nothing.
func (s *Sender) freeSlot(p *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.freed {
		return
	}
	p.freed = true
	s.total--
	if p.failing {
		s.failing--
	}
}

// endTries ends tries: it frees their slots and stops counting them for their endpoints.
func (s *Sender) endTries(all []claimedDelivery) {
	for _, c := range all {
		s.freeSlot(c.slot)
		s.mu.Lock()
		if s.sending[c.hook.ID]--; s.sending[c.hook.ID] == 0 {
			delete(s.sending, c.hook.ID)
		}
		s.mu.Unlock()
	}
}

// requeueInterrupted makes the deliveries that a dead process was sending due at once. Such a try
// does not count, since its outcome is not known.
func (s *Sender) requeueInterrupted(ctx context.Context) error {
	hooks, _, err := s.enabledHooks(ctx)
	if err != nil || len(hooks) == 0 {
		return err
	}
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		for _, w := range hooks {
			found, err := tx.Webhooks().Deliveries(store.HookDeliveryFilter{Webhook: w.ID, DueBy: tx.Now().Add(s.lease())})
			if err != nil {
				return err
			}
			for _, d := range found {
				if !d.Sending {
					continue
				}
				d.Attempts, d.Sending, d.DueAt = d.Attempts-1, false, tx.Now()
				if err := tx.Webhooks().UpdateDelivery(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
