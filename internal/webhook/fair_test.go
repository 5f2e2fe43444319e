package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	hook "github.com/perdure/perdure/webhook"
)

// TestRetryAfter: a receiver that says when it wants to be asked again is not asked sooner, and not
// much later than an hour from then, whatever it says. What it says cannot make the tries come
// faster than they would.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says        string
		least, most time.Duration // between the first and the second try, without the time until the next poll
	}{
		{"600", 10 * time.Minute, 10 * time.Minute},
		{"99999999", time.Hour, time.Hour},
		{"0", 4 * time.Second, 5 * time.Second},
		{"-5", 4 * time.Second, 5 * time.Second},
		{"soon", 4 * time.Second, 5 * time.Second},
		{"Sat, 01 Jan 2000 00:30:00 GMT", 29 * time.Minute, 30 * time.Minute}, // the bubble begins with 2000
		{"Fri, 31 Dec 1999 00:00:00 GMT", 4 * time.Second, 5 * time.Second},
		{"Fri, 31 Dec 9999 00:00:00 GMT", time.Hour, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.out.answer = func(_ string, n int) answer {
				if n == 1 {
					return answer{status: http.StatusTooManyRequests, wait: c.says}
				}
				return answer{status: 204}
			}
			id := b.session()
			b.make("busy.example")
			stop := b.run(b.Sender)
			defer stop()
			b.happen(id, perdure.TurnCompleted{})

			settle(c.most + time.Minute)

			posts := b.out.at("busy.example")
			if len(posts) != 2 {
				t.Fatalf("%q: got %d posts, want 2", c.says, len(posts))
			}
			if pause := posts[1].at.Sub(posts[0].at); pause < c.least || pause > c.most+2*time.Second {
				t.Errorf("%q: tried again after %s, want %s to %s", c.says, pause, c.least, c.most)
			}
		})
	}
}

// torn is a store in which a journal cannot be read.
type torn struct {
	store.Store
	session perdure.SessionID
}

type tornReader struct {
	store.Reader
	session perdure.SessionID
}

// tornReaderJournal overrides a part of one noun.
type tornReaderJournal struct {
	store.JournalView
	tornReader
}

func (r tornReader) Journal() store.JournalView { return tornReaderJournal{r.Reader.Journal(), r} }

func (s torn) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return fn(tornReader{r, s.session}) })
}

func (r tornReaderJournal) Events(id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	if id == r.session {
		return nil, errors.New("no such kind of event")
	}
	return r.JournalView.Events(id, after, limit)
}

// TestUnreadableJournal: what cannot be read of one session keeps nothing of others from where it
// is to go.
func TestUnreadableJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		bad, good := b.session(), b.session()
		var log bytes.Buffer
		b.over = func(s store.Store) store.Store { return torn{s, bad} }
		b.log = slog.New(slog.NewTextHandler(&log, nil))
		b.Sender = b.sender()
		b.make("a.example")
		stop := b.run(b.Sender)
		b.happen(bad, perdure.TurnCompleted{})
		b.happen(good, perdure.TurnCompleted{})

		settle(time.Minute)
		stop()

		if n := len(b.out.at("a.example")); n != 1 {
			t.Errorf("got %d posts, want that of the session that can be read", n)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), string(bad)) {
			t.Errorf("it was logged %d times:\n%s", n, log.String())
		}
	})
}

// restless is a store in which something happens with each commit of the sender's.
type restless struct {
	store.Store
	then func()
}

func (s restless) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := s.Store.InTx(ctx, fn)
	s.then()
	return err
}

// TestRestlessJournal: sessions in which something happens all the time keep neither others nor the
// sending waiting.
func TestRestlessJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var busy []perdure.SessionID
		for range 70 {
			busy = append(busy, b.session())
		}
		quiet := b.session() // the last one in every list
		var happened, sentAt atomic.Int64
		b.over = func(s store.Store) store.Store {
			return restless{s, func() {
				if n := happened.Add(1); n < 3000 {
					b.happen(busy[n%70], perdure.SessionUpdated{Title: fmt.Sprint(n)})
				}
			}}
		}
		b.out.answer = func(string, int) answer {
			sentAt.CompareAndSwap(0, happened.Load())
			return answer{status: 204}
		}
		b.Sender = b.sender()
		b.make("a.example")
		for _, id := range busy {
			b.happen(id, perdure.SessionUpdated{Title: "busy"})
		}
		b.happen(quiet, perdure.TurnCompleted{})
		stop := b.run(b.Sender)
		defer stop()

		settle(10 * time.Second)

		if n := sentAt.Load(); n == 0 || n > 500 {
			t.Errorf("it was sent when %d other things had happened (0: it was not), want it before 500", n)
		}
	})
}

// TestLongJournal: of a journal with many pages of news everything is queued in one look.
func TestLongJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.slow()
		id := b.session()
		made := b.make("a.example")
		for range 5 {
			facts := make([]perdure.Fact, 700)
			for i := range facts {
				facts[i] = perdure.SessionUpdated{Title: "again"}
			}
			b.happen(id, append(facts[1:], perdure.TurnCompleted{})...)
		}
		stop := b.run(b.Sender)
		defer stop()

		settle(10 * time.Second)

		if n := len(b.deliveries(made.ID)); n != 5 {
			t.Errorf("got %d deliveries, want 5", n)
		}
	})
}

// TestIDAgain: what a webhook noted of a session is not held against another one that comes under
// the same id.
func TestIDAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.session()
		b.make("first.example")
		b.happen(id, perdure.TurnCompleted{}, perdure.TurnCompleted{}, perdure.TurnCompleted{})
		late := b.make("late.example") // three events of the session are not for it
		b.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })
		stop := b.run(b.Sender)
		defer stop()
		settle(2 * time.Second)
		b.write(func(tx store.Tx) error {
			return tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted})
		})
		b.happen(id, perdure.TurnCompleted{})

		settle(3 * time.Second)

		if n := len(b.deliveries(late.ID)); n != 1 {
			t.Errorf("got %d deliveries of the new session, want 1", n)
		}
	})
}

// TestOrgsShareNoPlaces: an org that has all the webhooks that it may have takes none from another.
func TestOrgsShareNoPlaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	create := func(org string) error {
		_, err := b.Create(t.Context(), hook.Webhook{URL: "https://a.example/", Org: org})
		return err
	}
	for range hook.MaxWebhooks {
		if err := create("acme"); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("acme"); !errors.Is(err, perdure.Limit) {
		t.Errorf("one more: got %v, want Limit", err)
	}
	if err := create("other"); err != nil {
		t.Errorf("the first of another org: %v", err)
	}
}

// TestForgetsWhileOff: what ended is forgotten after its time, also when no webhook is enabled.
func TestForgetsWhileOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.session()
		made := b.make("a.example")
		stop := b.run(b.Sender)
		defer stop()
		b.happen(id, perdure.TurnCompleted{})
		settle(5 * time.Second)
		off := false
		if _, err := b.Change(t.Context(), made.ID, hook.Patch{Enabled: &off}); err != nil {
			t.Fatal(err)
		}
		if n := len(b.deliveries(made.ID)); n != 1 {
			t.Fatalf("got %d deliveries, want 1", n)
		}

		settle(hook.Retention + 2*time.Hour)

		if all := b.deliveries(made.ID); len(all) != 0 {
			t.Errorf("got %+v after %s", all, hook.Retention)
		}
	})
}

// TestKeyInURL: the URL of a receiver may be secret; it must not appear in the log.
func TestKeyInURL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var log bytes.Buffer
		b.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		b.Sender = b.sender()
		b.out.answer = func(string, int) answer { return answer{status: http.StatusGone} }
		id := b.session()
		made, err := b.Create(t.Context(), hook.Webhook{URL: "https://a.example/services/T0/xyzzy?key=plugh"})
		if err != nil {
			t.Fatal(err)
		}
		stop := b.run(b.Sender)
		b.happen(id, perdure.TurnCompleted{})
		settle(5 * time.Second)
		stop()
		if b.hook(made.ID).Enabled || !strings.Contains(log.String(), string(made.ID)) {
			t.Fatalf("it was not disabled and logged:\n%s", log.String())
		}
		for _, key := range []string{"xyzzy", "plugh"} {
			if strings.Contains(log.String(), key) {
				t.Errorf("the log has %s:\n%s", key, log.String())
			}
		}
	})
}

// TestStopsAtOnce: a sender that is stopped before it read the deliveries of its predecessor logs
// no warning, since nothing is wrong.
func TestStopsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var log bytes.Buffer
	b.log = slog.New(slog.NewTextHandler(&log, nil))
	b.over = func(st store.Store) store.Store { return ended{st} }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.sender().Run(ctx); err != nil || log.Len() > 0 {
		t.Errorf("%v, and the log has:\n%s", err, log.String())
	}
}

// ended is a store that looks at ctx first, as one over a database does.
type ended struct{ store.Store }

func (s ended) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.View(ctx, fn)
}
