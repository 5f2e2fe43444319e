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

// spansAtOnce is how many journals are looked at before what is due is sent.
const spansAtOnce = 64

// list reads which journals have something new. All of them are in one list, and none comes again before the others had their turn:
// one that grows all the time keeps nobody waiting.
func (s *Sender) list(ctx context.Context) error {
	err := s.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		s.spans, err = r.HookSpans(0)
		return err
	})
	if err != nil {
		s.spans = nil
		return err
	}
	if err := s.forgetGone(ctx); err != nil {
		return err
	}
	for id := range s.stuck {
		if !slices.ContainsFunc(s.spans, func(span store.HookSpan) bool { return span.Session == id }) {
			delete(s.stuck, id)
		}
	}
	return nil
}

// forgetGone takes out of the rows of webhooks what they noted of sessions that are gone: another one may come under the same id.
func (s *Sender) forgetGone(ctx context.Context) error {
	gone := map[perdure.SessionID]bool{}
	err := s.cfg.Store.View(ctx, func(r store.Reader) error {
		hooks, err := r.Webhooks()
		clear(gone)
		for _, w := range hooks {
			for id := range w.From {
				if _, err := r.Session(id); errors.Is(err, perdure.NotFound) {
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
		hooks, err := tx.Webhooks()
		for _, w := range hooks {
			noted := len(w.From)
			maps.DeleteFunc(w.From, func(id perdure.SessionID, _ int64) bool { return gone[id] })
			if err == nil && len(w.From) < noted {
				_, err = tx.PutWebhook(w)
			}
		}
		return err
	})
}

// queue turns what is new in some of the journals of the list into deliveries. One that cannot be read is left until the next
// list, and keeps no other from it.
func (s *Sender) queue(ctx context.Context) error {
	for range min(len(s.spans), spansAtOnce) {
		span := s.spans[0]
		s.spans = s.spans[1:]
		to, err := s.queueOf(ctx, span)
		switch {
		case err == nil:
			delete(s.stuck, span.Session)
			if span.From < to && to < span.To { // the rest of a long one comes after the others
				s.spans = append(s.spans, store.HookSpan{Session: span.Session, From: to, To: span.To})
			}
		case ctx.Err() != nil || store.Broken(err):
			return err
		case !s.stuck[span.Session]: // it is told once
			s.stuck[span.Session] = true
			s.cfg.Log.Warn("what happens in a session cannot be queued for webhooks, and is tried again", "session", span.Session, "error", err)
		}
	}
	return nil
}

// queueOf turns a page of a journal into deliveries, and says up to where; 0: nothing was to be done. The cursor moves in the same
// commit, so that each event is looked at once; where two look, one of them does it.
func (s *Sender) queueOf(ctx context.Context, span store.HookSpan) (to int64, err error) {
	var events []perdure.Event
	var row store.Session
	err = s.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if row, err = r.Session(span.Session); err == nil {
			events, err = r.Events(span.Session, span.From, store.Page)
		}
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		return 0, nil // it was removed
	}
	if err != nil || len(events) == 0 {
		return 0, err
	}
	span.To = events[len(events)-1].Seq
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		hooks, err := tx.Webhooks() // before the cursor: nobody makes one meanwhile
		if err == nil {
			err = tx.MoveHooks(span)
		}
		if err != nil {
			return err
		}
		for _, w := range hooks {
			if err := queueFor(tx, w, looked{span, hook.From{Org: row.Org, Labels: row.Labels}, events}); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, perdure.Conflict) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("queue for webhooks, session %s: %w", span.Session, err)
	}
	return span.To, nil
}

// looked is a piece of a journal that is looked at.
type looked struct {
	span   store.HookSpan
	from   hook.From
	events []perdure.Event
}

// queueFor queues for one webhook. What happened before it was enabled is not for it.
func queueFor(tx store.Tx, w store.Webhook, l looked) error {
	from, late := w.From[l.span.Session]
	for _, e := range l.events {
		if e.Seq <= from || !w.Wants(l.from, e) {
			continue
		}
		if _, err := tx.AddHookDelivery(hook.NewDelivery(w.ID, e, tx.Now())); err != nil {
			return err
		}
	}
	if late && l.span.To >= from {
		delete(w.From, l.span.Session)
		if _, err := tx.PutWebhook(w); err != nil {
			return err
		}
	}
	return nil
}

// begin lets a webhook have what comes from now on: where no other is served, nobody looked at the journals, and nobody needs to
// look at what they have; else it notes how far those are that somebody has to look at for others.
func begin(tx store.Tx, w *store.Webhook) error {
	all, err := tx.Webhooks()
	if err != nil {
		return err
	}
	served := false
	for _, other := range all {
		served = served || other.Enabled && other.ID != w.ID
	}
	if w.From = nil; !served {
		return tx.MoveHooks(store.HookSpan{})
	}
	spans, err := tx.HookSpans(0)
	if err != nil || len(spans) == 0 {
		return err
	}
	w.From = map[perdure.SessionID]int64{}
	for _, span := range spans {
		w.From[span.Session] = span.To
	}
	return nil
}

// claimed is a delivery that is to be tried, with what it needs.
type claimed struct {
	hook     store.Webhook
	delivery hook.Delivery
	place    *place
}

// place is what a try has of the places. A slow one gives it up before it ends, so that a crowd of endpoints that do not answer
// keeps nobody waiting; it counts for its own endpoint until it ends.
type place struct {
	failing bool // of those that fail
	left    bool // guarded by Sender.mu
}

// claim takes what is due and has a place. It is the intent before the act: the row says how many tries began, and when it is due
// again if this one is not heard of any more. An endpoint that fails has one place, and all that fail have half of them, so that
// they keep nobody else waiting.
func (s *Sender) claim(ctx context.Context, hooks []store.Webhook) (all []claimed, err error) {
	due, err := s.anyDue(ctx, hooks)
	if err != nil || !due {
		return nil, err
	}
	s.turn++
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s.release(all) // of a run that was not the last
		all = nil
		hooks, err := tx.Webhooks()
		if err != nil {
			return err
		}
		for _, most := range []int{1, placesEach} { // each has one, before any has more
			for i := range hooks {
				w := hooks[(i+s.turn)%len(hooks)]
				if !w.Enabled {
					continue
				}
				taken, err := s.claimOf(tx, w, most)
				all = append(all, taken...)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		s.release(all)
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return all, nil
}

// anyDue reports whether something is due that has a place.
func (s *Sender) anyDue(ctx context.Context, hooks []store.Webhook) (due bool, err error) {
	return due, s.cfg.Store.View(ctx, func(r store.Reader) error {
		due = false
		for _, w := range hooks {
			if s.free(w) == 0 {
				continue
			}
			found, err := r.HookDeliveries(store.HookDeliveryFilter{Webhook: w.ID, DueBy: r.Now(), Limit: 1})
			if err != nil || len(found) > 0 {
				due = len(found) > 0
				return err
			}
		}
		return nil
	})
}

// claimOf claims up to so many of what is due of one webhook.
func (s *Sender) claimOf(tx store.Tx, w store.Webhook, most int) (taken []claimed, err error) {
	n := min(s.free(w), most)
	if n == 0 {
		return nil, nil
	}
	found, err := tx.HookDeliveries(store.HookDeliveryFilter{Webhook: w.ID, DueBy: tx.Now(), Limit: n})
	for _, d := range found {
		if err != nil {
			break
		}
		if d.Attempts >= hook.MaxAttempts() { // the last try was cut off
			d.State, d.Sending, d.DueAt, d.EndedAt = hook.Failed, false, tx.Now(), tx.Now()
			err = tx.ChangeHookDelivery(d)
			continue
		}
		d.Attempts, d.Sending, d.DueAt = d.Attempts+1, true, tx.Now().Add(s.lease())
		if err = tx.ChangeHookDelivery(d); err == nil {
			taken = append(taken, claimed{w, d, s.enter(w)})
		}
	}
	return taken, err
}

// free is how many places a webhook may have more.
func (s *Sender) free(w store.Webhook) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, each := places-s.total, placesEach
	if w.Failures > 0 {
		left, each = min(left, placesFailing-s.failing), 1
	}
	return max(min(left, each-s.sending[w.ID]), 0)
}

// enter takes a place.
func (s *Sender) enter(w store.Webhook) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &place{failing: w.Failures > 0}
	s.sending[w.ID]++
	s.total++
	if p.failing {
		s.failing++
	}
	return p
}

// leave gives a place up, once.
func (s *Sender) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	s.total--
	if p.failing {
		s.failing--
	}
}

// release ends tries.
func (s *Sender) release(all []claimed) {
	for _, c := range all {
		s.leave(c.place)
		s.mu.Lock()
		if s.sending[c.hook.ID]--; s.sending[c.hook.ID] == 0 {
			delete(s.sending, c.hook.ID)
		}
		s.mu.Unlock()
	}
}

// takeOver makes what a dead process was sending due at once. It does not count as a try, since nobody knows what became of it.
func (s *Sender) takeOver(ctx context.Context) error {
	hooks, _, err := s.enabledHooks(ctx)
	if err != nil || len(hooks) == 0 {
		return err
	}
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		for _, w := range hooks {
			found, err := tx.HookDeliveries(store.HookDeliveryFilter{Webhook: w.ID, DueBy: tx.Now().Add(s.lease())})
			if err != nil {
				return err
			}
			for _, d := range found {
				if !d.Sending {
					continue
				}
				d.Attempts, d.Sending, d.DueAt = d.Attempts-1, false, tx.Now()
				if err := tx.ChangeHookDelivery(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
