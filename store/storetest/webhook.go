package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/webhook"
)

func webhookLaws() []law {
	return []law{
		{"keeps_every_field", webhookFields},
		{"is_replaced_only_as_it_was_read", webhookVersions},
		{"refuses_what_is_none", webhookThatIsNone},
		{"sees_each_journal_once", hookSpans},
		{"moves_on_once_of_many", hookRace},
		{"moves_on_over_all", hookSkips},
		{"queues_a_delivery_once", hookQueue},
		{"lists_what_is_due", hookDue},
		{"lists_deliveries_from_the_newest", hookLists},
		{"prunes_what_ended", hookPrune},
		{"goes_with_its_deliveries", webhookGoes},
		{"goes_with_its_session", hooksOfSession},
		{"begins_after_what_was_restored", hookRestored},
		{"goes_with_its_transaction", webhookAndFail},
		{"survives_reopening", webhookSurvives},
	}
}

// newWebhook returns a webhook with every field set.
func (s *subject) newWebhook() store.Webhook {
	w := filled[store.Webhook]()
	w.ID, w.URL, w.Types, w.Body, w.Session, w.Version = mint[perdure.WebhookID](s), "https://example.com/hook?a=<&>",
		[]string{"task.*"}, webhook.BodySnapshot, "", 0
	w.From = map[perdure.SessionID]int64{"elsewhere": 3}
	return w
}

// hook puts a webhook, and returns it as stored.
func (s *subject) hook(w store.Webhook) (put store.Webhook) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		put, err = tx.Webhooks().Put(w)
		return err
	})
	return put
}

// hooks returns all webhooks.
func (s *subject) hooks() (found []store.Webhook) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Webhooks().List()
		return err
	})
	return found
}

// newHookDelivery returns a queued delivery with every field set.
func (s *subject) newHookDelivery(of perdure.WebhookID, session perdure.SessionID, due time.Time) webhook.Delivery {
	d := filled[webhook.Delivery]()
	d.ID, d.Webhook, d.Session, d.State, d.DueAt, d.EndedAt = mint[perdure.WebhookDeliveryID](s), of, session,
		webhook.Queued, due, time.Time{}
	return d
}

// queue adds deliveries, each of which must be new.
func (s *subject) queue(all ...webhook.Delivery) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		for _, d := range all {
			if added, err := tx.Webhooks().AddDelivery(d); err != nil || !added {
				return fmt.Errorf("added %t: %w", added, err)
			}
		}
		return nil
	})
}

// queued lists deliveries.
func (s *subject) queued(filter store.HookDeliveryFilter) (found []webhook.Delivery) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Webhooks().Deliveries(filter)
		return err
	})
	return found
}

// spans lists what was not examined.
func (s *subject) spans(limit int) (found []store.HookSpan) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Webhooks().Spans(limit)
		return err
	})
	return found
}

func webhookFields(s *subject) {
	one, two := s.newWebhook(), s.newWebhook()
	first := s.hook(one)
	second := s.hook(two)

	one.Version, one.UpdatedAt = 1, first.UpdatedAt
	s.same("as it was put", first, one)
	s.same("listed", s.hooks(), []store.Webhook{first, second})
	s.read(func(r store.Reader) error {
		found, err := r.Webhooks().Get(two.ID)
		s.same("read", found, second)
		return err
	})
	s.unknown(func(r store.Reader) error { _, err := r.Webhooks().Get("webhook_none"); return err })
}

func webhookVersions(s *subject) {
	w := s.hook(s.newWebhook())
	w.Failures = 7
	next := s.hook(w)

	s.same("next version", next.Version, w.Version+1)
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Webhooks().Put(w); return err })
	w.Version = 0
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Webhooks().Put(w); return err })
	gone := s.newWebhook()
	gone.Version = 3
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Webhooks().Put(gone); return err })
	s.same("stays", s.hooks(), []store.Webhook{next})
}

func webhookThatIsNone(s *subject) {
	for _, spoil := range []func(*store.Webhook){
		func(w *store.Webhook) { w.ID = "hook" },
		func(w *store.Webhook) { w.URL = "ftp://example.com" },
		func(w *store.Webhook) { w.URL = "https://user:secret@example.com" },
		func(w *store.Webhook) { w.Types = []string{"task.started"} },
		func(w *store.Webhook) { w.Body = "all" },
		func(w *store.Webhook) { w.Sealed = make([]byte, 1<<20) },
	} {
		w := s.newWebhook()
		spoil(&w)
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Webhooks().Put(w); return err })
	}
}

// move advances the cursor over a span.
func (s *subject) move(span store.HookSpan) {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Webhooks().Move(span) })
}

func hookSpans(s *subject) {
	one, two := s.session(), s.session()
	s.session() // with an empty journal
	s.append(one, 3)
	s.append(two, 2)
	all := []store.HookSpan{{Session: one, To: 3}, {Session: two, To: 2}}
	s.same("before", s.spans(0), all)
	s.same("the first", s.spans(1), all[:1])

	s.move(store.HookSpan{Session: one, From: 0, To: 2})

	s.same("a part", s.spans(0), []store.HookSpan{{Session: one, From: 2, To: 3}, all[1]})
	s.refused(perdure.Conflict, func(tx store.Tx) error {
		return tx.Webhooks().Move(store.HookSpan{Session: one, From: 0, To: 3})
	})
	s.refused(perdure.Conflict, func(tx store.Tx) error {
		return tx.Webhooks().Move(store.HookSpan{Session: one, From: 1, To: 3})
	})
	s.refused(perdure.Conflict, func(tx store.Tx) error {
		return tx.Webhooks().Move(store.HookSpan{Session: "session_none", From: 0, To: 3})
	})
	s.move(store.HookSpan{Session: one, From: 2, To: 3})
	s.move(all[1])
	s.same("all of it", s.spans(0), []store.HookSpan{})
	s.append(two, 1)
	s.same("a new event", s.spans(0), []store.HookSpan{{Session: two, From: 2, To: 3}})
}

func hookRace(s *subject) {
	session := s.session()
	s.append(session, 2)
	var moved atomic.Int32
	w := s.hook(s.newWebhook())
	s.together(nParallel, func(int) error {
		err := s.InTx(s.ctx, func(tx store.Tx) error {
			if _, err := tx.Webhooks().List(); err != nil {
				return err
			}
			return tx.Webhooks().Move(store.HookSpan{Session: session, To: 2})
		})
		switch {
		case err == nil:
			moved.Add(1)
		case errors.Is(err, perdure.Conflict):
			return nil
		}
		return err
	})

	s.same("moved", moved.Load(), int32(1))
	s.same("webhooks", s.hooks(), []store.Webhook{w})
}

func hookSkips(s *subject) {
	one, two := s.session(), s.session()
	s.append(one, 3)
	s.append(two, 2)
	s.move(store.HookSpan{Session: one, To: 1})

	s.move(store.HookSpan{})

	s.same("skipped", s.spans(0), []store.HookSpan{})
	s.append(two, 1)
	s.same("a new event", s.spans(0), []store.HookSpan{{Session: two, From: 2, To: 3}})
}

func hookQueue(s *subject) {
	session, w := s.session(), s.hook(s.newWebhook())
	d := s.newHookDelivery(w.ID, session, moment(1))
	s.queue(d)
	again := d
	again.Attempts++
	s.write(func(tx store.Tx) error {
		added, err := tx.Webhooks().AddDelivery(again)
		s.same("added again", added, false)
		return err
	})
	s.read(func(r store.Reader) error {
		found, err := r.Webhooks().Delivery(d.ID)
		s.same("as it was queued", found, d)
		return err
	})

	s.write(func(tx store.Tx) error { return tx.Webhooks().UpdateDelivery(again) })

	s.same("changed", s.queued(store.HookDeliveryFilter{Webhook: w.ID}), []webhook.Delivery{again})
	s.unknown(func(r store.Reader) error { _, err := r.Webhooks().Delivery("whd_none"); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		return tx.Webhooks().UpdateDelivery(s.newHookDelivery(w.ID, session, moment(1)))
	})
}

func hookDue(s *subject) {
	session, one, two := s.session(), s.hook(s.newWebhook()), s.hook(s.newWebhook())
	late, soon, done := s.newHookDelivery(one.ID, session, moment(20)), s.newHookDelivery(one.ID, session, moment(10)),
		s.newHookDelivery(one.ID, session, moment(5))
	done.EndedAt = moment(6)
	s.queue(late, soon, done, s.newHookDelivery(two.ID, session, moment(1)))

	s.same("none", s.queued(store.HookDeliveryFilter{Webhook: one.ID, DueBy: moment(9)}), []webhook.Delivery{})
	s.same("the first", s.queued(store.HookDeliveryFilter{Webhook: one.ID, DueBy: moment(10)}),
		[]webhook.Delivery{soon})
	s.same("all", s.queued(store.HookDeliveryFilter{Webhook: one.ID, DueBy: moment(99)}),
		[]webhook.Delivery{soon, late})
	s.same("limited", s.queued(store.HookDeliveryFilter{Webhook: one.ID, DueBy: moment(99), Limit: 1}),
		[]webhook.Delivery{soon})
}

func hookLists(s *subject) {
	session, w := s.session(), s.hook(s.newWebhook())
	one, two, three := s.newHookDelivery(w.ID, session, moment(3)), s.newHookDelivery(w.ID, session, moment(2)),
		s.newHookDelivery(w.ID, session, moment(1))
	s.queue(one, two, three)

	s.same("all", s.queued(store.HookDeliveryFilter{Webhook: w.ID}), []webhook.Delivery{three, two, one})
	s.same("two", s.queued(store.HookDeliveryFilter{Webhook: w.ID, Limit: 2}), []webhook.Delivery{three, two})
	s.same("older", s.queued(store.HookDeliveryFilter{Webhook: w.ID, Before: two.ID}), []webhook.Delivery{one})
	s.same("another's", s.queued(store.HookDeliveryFilter{Webhook: "webhook_none"}), []webhook.Delivery{})
}

func hookPrune(s *subject) {
	session, w := s.session(), s.hook(s.newWebhook())
	var all []webhook.Delivery
	for i := range 4 {
		d := s.newHookDelivery(w.ID, session, moment(1))
		d.EndedAt = moment(i + 1)
		all = append(all, d)
	}
	all[0].EndedAt = time.Time{}
	s.queue(all...)

	for _, want := range []int{1, 1, 0} {
		s.write(func(tx store.Tx) error {
			n, err := tx.Webhooks().PruneDeliveries(moment(4), 1)
			s.same("pruned", n, want)
			return err
		})
	}

	s.same("left", s.queued(store.HookDeliveryFilter{Webhook: w.ID}), []webhook.Delivery{all[3], all[0]})
}

func webhookGoes(s *subject) {
	session, one, two := s.session(), s.hook(s.newWebhook()), s.hook(s.newWebhook())
	s.queue(s.newHookDelivery(one.ID, session, moment(1)))
	left := s.newHookDelivery(two.ID, session, moment(1))
	s.queue(left)

	for _, want := range []bool{true, false} {
		s.write(func(tx store.Tx) error {
			removed, err := tx.Webhooks().Remove(one.ID)
			s.same("removed", removed, want)
			return err
		})
	}

	s.same("left", s.hooks(), []store.Webhook{two})
	s.same("its deliveries", s.queued(store.HookDeliveryFilter{Webhook: one.ID}), []webhook.Delivery{})
	s.same("the other's", s.queued(store.HookDeliveryFilter{Webhook: two.ID}), []webhook.Delivery{left})
}

func hooksOfSession(s *subject) {
	one, two, w := s.session(), s.session(), s.hook(s.newWebhook())
	s.append(one, 2)
	s.append(two, 1)
	s.move(store.HookSpan{Session: one, To: 1})
	ended := s.newHookDelivery(w.ID, one, moment(1))
	ended.EndedAt = moment(2)
	left := s.newHookDelivery(w.ID, two, moment(1))
	s.queue(s.newHookDelivery(w.ID, one, moment(1)), ended, left)

	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(one) })

	s.same("deliveries", s.queued(store.HookDeliveryFilter{Webhook: w.ID}), []webhook.Delivery{left})
	s.same("spans", s.spans(0), []store.HookSpan{{Session: two, To: 1}})
}

func hookRestored(s *subject) {
	session := s.session()
	s.append(session, 3)
	var dump store.SessionDump
	s.read(func(r store.Reader) (err error) {
		dump, err = r.Sessions().Dump(session)
		return err
	})
	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(session) })

	s.write(func(tx store.Tx) error { return tx.Sessions().Restore(dump) })

	s.same("what was there before", s.spans(0), []store.HookSpan{})
	s.append(session, 1)
	s.same("what is new", s.spans(0), []store.HookSpan{{Session: session, From: 3, To: 4}})
}

func webhookAndFail(s *subject) {
	session, w := s.session(), s.hook(s.newWebhook())
	s.append(session, 1)
	s.refused(perdure.Lost, func(tx store.Tx) error {
		changed := w
		changed.Failures = 99
		_, put := tx.Webhooks().Put(changed)
		_, added := tx.Webhooks().AddDelivery(s.newHookDelivery(w.ID, session, moment(1)))
		moved := tx.Webhooks().Move(store.HookSpan{Session: session, To: 1})
		if put != nil || added != nil || moved != nil {
			return fmt.Errorf("%w, %w, %w", put, added, moved)
		}
		return perdure.Lost
	})

	s.same("webhooks", s.hooks(), []store.Webhook{w})
	s.same("deliveries", s.queued(store.HookDeliveryFilter{Webhook: w.ID}), []webhook.Delivery{})
	s.same("spans", s.spans(0), []store.HookSpan{{Session: session, To: 1}})
}

func webhookSurvives(s *subject) {
	session, w := s.session(), s.hook(s.newWebhook())
	s.append(session, 2)
	s.move(store.HookSpan{Session: session, To: 1})
	d := s.newHookDelivery(w.ID, session, moment(1))
	s.queue(d)

	s.reopen()

	s.same("webhooks", s.hooks(), []store.Webhook{w})
	s.same("deliveries", s.queued(store.HookDeliveryFilter{Webhook: w.ID}), []webhook.Delivery{d})
	s.same("spans", s.spans(0), []store.HookSpan{{Session: session, From: 1, To: 2}})
}
