package temporal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/perdure/perdure"
)

// hostFake is a host of which a test gives the parts that it needs.
type hostFake struct {
	Host
	drive   func(ctx context.Context, g Grant) (Rest, error)
	runTask func(ctx context.Context, g Grant) (Ran, error)
	owns    func() (bool, error)
	due     func(after string, limit int) (Waiting, error)
	tidy    func() error
}

func (h hostFake) Drive(ctx context.Context, _ perdure.SessionID, g Grant) (Rest, error) {
	return h.drive(ctx, g)
}

func (h hostFake) RunTask(ctx context.Context, _ perdure.TaskID, g Grant) (Ran, error) {
	return h.runTask(ctx, g)
}

func (h hostFake) OwnsSession(context.Context, perdure.SessionID) (bool, error) { return h.owns() }

func (h hostFake) Due(_ context.Context, after string, limit int) (Waiting, error) {
	return h.due(after, limit)
}

func (h hostFake) KeepTime(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h hostFake) Tidy(context.Context) error { return h.tidy() }

// process is the activities of a process, with a channel that is closed when it stops.
type process struct {
	activities
	stop chan struct{}
}

// acts returns the activities of a process over a host. Heartbeats are answered by beat.
func acts(h Host, beat func(n int) error) *process {
	var mu sync.Mutex
	n := 0
	return &process{activities: activities{
		host: h, every: time.Millisecond, timeout: 3 * time.Millisecond, patience: time.Hour, tidyEvery: time.Millisecond, log: discard(),
		reconcile: func(context.Context) (time.Duration, error) { return time.Hour, nil },
		heartbeat: func(context.Context, []byte) error {
			mu.Lock()
			defer mu.Unlock()
			n++
			return beat(n)
		},
	}}
}

func alive(int) error { return nil }

// perform runs one activity in the SDK's environment and decodes its result.
func performed[T any](t *testing.T, a *process, name string, in workInput) (T, error) {
	t.Helper()
	suite := testsuite.WorkflowTestSuite{}
	suite.SetLogger(discardLogger())
	env := suite.NewTestActivityEnvironment()
	if a.stop != nil {
		env.SetWorkerStopChannel(a.stop)
	}
	a.register(env)
	var out T
	value, err := env.ExecuteActivity(name, in)
	if err == nil && value.HasValue() {
		if err := value.Get(&out); err != nil {
			t.Fatal(err)
		}
	}
	return out, err
}

// TestDriveActivity tests what a process does for a Drive.
func TestDriveActivity(t *testing.T) {
	t.Parallel()
	in := workInput{ID: "s", Grant: 4, Evict: true}

	t.Run("passes_the_grant_and_returns_the_rest", func(t *testing.T) {
		t.Parallel()
		again := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		var got Grant
		a := acts(hostFake{drive: func(_ context.Context, g Grant) (Rest, error) {
			got = g
			return Rest{Seq: 9, Grant: 4, Again: again}, nil
		}}, alive)
		out, err := performed[driveResult](t, a, driveActivity, in)
		if err != nil || got != (Grant{Number: 4, Evict: true}) || out.Seq != 9 || out.Again != again.UnixMilli() {
			t.Errorf("grant %+v, result %+v, error %v", got, out, err)
		}
	})

	t.Run("takes_nothing_when_the_activity_is_over", func(t *testing.T) {
		t.Parallel()
		a := acts(hostFake{drive: func(context.Context, Grant) (Rest, error) {
			t.Error("the host was asked")
			return Rest{}, nil
		}}, func(int) error { return serviceerror.NewNotFound("activity") })
		if _, err := performed[driveResult](t, a, driveActivity, in); err == nil {
			t.Error("no error")
		}
	})

	t.Run("reports_a_stale_grant_with_the_stored_one", func(t *testing.T) {
		t.Parallel()
		a := acts(hostFake{drive: func(context.Context, Grant) (Rest, error) { return Rest{Grant: 12}, perdure.Lost }}, alive)
		out, err := performed[driveResult](t, a, driveActivity, in)
		if err != nil || !out.Lost || out.Grant != 12 {
			t.Errorf("result %+v, error %v", out, err)
		}
	})

	t.Run("rests_when_the_session_was_removed", func(t *testing.T) {
		t.Parallel()
		a := acts(hostFake{drive: func(context.Context, Grant) (Rest, error) { return Rest{}, perdure.NotFound }}, alive)
		if out, err := performed[driveResult](t, a, driveActivity, in); err != nil || out != (driveResult{}) {
			t.Errorf("result %+v, error %v", out, err)
		}
	})
}

// TestDriveActivityEnds tests when a process ends the work of a Drive.
func TestDriveActivityEnds(t *testing.T) {
	t.Parallel()
	in := workInput{ID: "s", Grant: 4, Evict: true}

	t.Run("moves_when_the_process_stops", func(t *testing.T) {
		t.Parallel()
		stop := make(chan struct{})
		a := acts(hostFake{drive: func(ctx context.Context, _ Grant) (Rest, error) {
			close(stop)
			<-ctx.Done()
			return Rest{Grant: 4}, perdure.CauseOf(ctx)
		}}, alive)
		a.stop = stop
		out, err := performed[driveResult](t, a, driveActivity, in)
		if err != nil || !out.Moved {
			t.Errorf("result %+v, error %v, want moved", out, err)
		}
	})

	for name, over := range map[string]error{
		"the_activity": serviceerror.NewNotFound("activity"), "the_namespace": serviceerror.NewNamespaceNotFound("live"),
	} {
		t.Run("ends_the_work_after_its_patience_without_"+name, func(t *testing.T) {
			t.Parallel()
			a := acts(hostFake{drive: func(ctx context.Context, _ Grant) (Rest, error) {
				<-ctx.Done()
				return Rest{}, perdure.CauseOf(ctx)
			}}, func(n int) error {
				if n == 1 {
					return nil
				}
				return over
			})
			a.patience = time.Millisecond
			if out, err := performed[driveResult](t, a, driveActivity, in); err != nil || !out.Moved {
				t.Errorf("result %+v, error %v, want moved", out, err)
			}
		})
	}

	t.Run("continues_when_it_is_canceled", func(t *testing.T) {
		t.Parallel()
		canceled := make(chan struct{})
		a := acts(hostFake{drive: func(ctx context.Context, _ Grant) (Rest, error) {
			select {
			case <-canceled:
			case <-ctx.Done():
			}
			return Rest{Seq: 2}, ctx.Err()
		}}, func(n int) error {
			switch {
			case n == 1:
				return nil
			case n == 5:
				close(canceled)
			}
			return sdk.NewCanceledError()
		})
		if out, err := performed[driveResult](t, a, driveActivity, in); err != nil || out.Seq != 2 {
			t.Errorf("result %+v, error %v, want the rest", out, err)
		}
	})
}

// TestWorkOutlivesAnOutage tests that work continues while Temporal is away, until another process
// has taken it.
func TestWorkOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	in := workInput{ID: "s", Grant: 4}
	for name, store := range map[string]func() (bool, error){
		"the_store_answers": func() (bool, error) { return true, nil },
		"nor_the_store":     func() (bool, error) { return false, perdure.Unavailable },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			taken := false
			a := acts(hostFake{drive: func(ctx context.Context, _ Grant) (Rest, error) {
				<-ctx.Done()
				if !taken {
					t.Error("the work was ended while this process had it")
				}
				return Rest{}, perdure.CauseOf(ctx)
			}, owns: func() (bool, error) {
				reads++
				if taken = reads >= 5; taken {
					return false, nil
				}
				return store()
			}}, func(n int) error {
				if n == 1 {
					return nil
				}
				return serviceerror.NewUnavailable("down")
			})
			a.patience = time.Millisecond
			if out, err := performed[driveResult](t, a, driveActivity, in); err != nil || !out.Moved {
				t.Errorf("result %+v, error %v, want moved", out, err)
			}
		})
	}
}

// TestPatienceAfterAnOutage tests that work waits longer for its next activity if the former one
// ended while Temporal was away.
func TestPatienceAfterAnOutage(t *testing.T) {
	t.Parallel()
	const patience = 100 * time.Millisecond
	var began time.Time
	a := acts(hostFake{owns: func() (bool, error) { return true, nil }, drive: func(ctx context.Context, _ Grant) (Rest, error) {
		<-ctx.Done()
		return Rest{}, perdure.CauseOf(ctx)
	}}, func(n int) error {
		switch {
		case n == 1:
			return nil
		case n < 30: // longer than the timeout
			return serviceerror.NewUnavailable("down")
		}
		began = time.Now()
		return serviceerror.NewNotFound("activity")
	})
	a.patience = patience
	out, err := performed[driveResult](t, a, driveActivity, workInput{ID: "s", Grant: 4})
	if lasted := time.Since(began); err != nil || !out.Moved || lasted < outagePatience*patience {
		t.Errorf("result %+v, error %v after %s, want moved after %s", out, err, lasted, outagePatience*patience)
	}
}

// TestActivityErrors tests what histories have of errors.
func TestActivityErrors(t *testing.T) {
	t.Parallel()
	in := workInput{ID: "s", Grant: 4, Evict: true}

	t.Run("shows_only_the_kind_of_an_error", func(t *testing.T) {
		t.Parallel()
		for text, fails := range map[string]func() error{
			"unavailable": func() error { return errors.Join(errors.New("canary"), perdure.Unavailable) },
			"invalid":     func() error { return errors.Join(errors.New("canary"), perdure.Invalid) },
			"internal":    func() error { return errors.New("canary") },
			"panic":       func() error { panic("canary") },
		} {
			a := acts(hostFake{drive: func(context.Context, Grant) (Rest, error) { return Rest{}, fails() }}, alive)
			_, err := performed[driveResult](t, a, driveActivity, in)
			if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), text) {
				t.Errorf("error %v, want one that says %s only", err, text)
			}
			var app *sdk.ApplicationError
			if errors.As(err, &app) && (app.Type() == permanentType) != (text == "invalid") {
				t.Errorf("%s has the type %s", text, app.Type())
			}
		}
	})
}

// TestMaintainActivity tests that a failing pass does not end the others.
func TestMaintainActivity(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	n := 0
	a := acts(hostFake{tidy: func() error {
		if n++; n == 3 {
			close(stop)
		}
		return perdure.Unavailable
	}}, alive)
	a.stop = stop

	_, err := performed[struct{}](t, a, maintainActivity, workInput{})

	if err != nil || n < 3 {
		t.Errorf("error %v after %d passes, want none after 3", err, n)
	}
}

// TestShares tests that the work of two activities ends with the last of them.
func TestShares(t *testing.T) {
	t.Parallel()
	var s shares

	first, second := s.join(t.Context(), "s"), s.join(t.Context(), "s")
	first.leave(perdure.CauseSuperseded)
	first.leave(perdure.CauseSuperseded)
	if first.ctx.Err() != nil || second.ctx.Err() != nil {
		t.Error("the work ended although an activity takes part in it")
	}
	second.leave(perdure.CauseShutdown)
	if got := perdure.CauseOf(first.ctx); got != perdure.CauseShutdown {
		t.Errorf("cause = %q, want that of the last", got)
	}
	if third := s.join(t.Context(), "s"); third.ctx.Err() != nil {
		t.Error("new work begins with the end of the former")
	}
}

// TestWaker tests the set of what Temporal is to be told.
func TestWaker(t *testing.T) {
	t.Parallel()

	t.Run("tells_the_same_once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			told := map[topic]int{}
			var mu sync.Mutex
			w := newWaker(func(_ context.Context, t topic) error {
				mu.Lock()
				defer mu.Unlock()
				told[t]++
				return nil
			}, discard())
			for range 1000 {
				w.add(topic{session: "a"})
				w.add(topic{session: "a", runs: true})
			}
			runFor(t, w, time.Second)
			if len(told) != 2 || told[topic{session: "a"}] != 1 || len(w.topics) != 0 {
				t.Errorf("told %v, left %d", told, len(w.topics))
			}
		})
	})

	t.Run("tells_again_what_was_asked_meanwhile", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			n := 0
			var w *waker
			w = newWaker(func(_ context.Context, at topic) error {
				if n++; n == 1 {
					w.add(at)
					w.add(at)
				}
				return nil
			}, discard())
			w.add(topic{session: "a"})
			runFor(t, w, time.Second)
			if n != 2 {
				t.Errorf("told %d times, want 2", n)
			}
		})
	})
}

// TestWakerBounds tests how often the waker asks Temporal.
func TestWakerBounds(t *testing.T) {
	t.Parallel()

	t.Run("backs_off_and_forgets_nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var at []time.Duration
			began := time.Now()
			w := newWaker(func(context.Context, topic) error {
				if at = append(at, time.Since(began)); len(at) < 10 {
					return perdure.Unavailable
				}
				return nil
			}, discard())
			w.add(topic{session: "a"})
			runFor(t, w, time.Hour)
			if len(at) != 10 || at[9]-at[8] != wakeMostWait || at[1]-at[0] != wakeBackOff {
				t.Errorf("told at %v, want 10 times with growing waits", at)
			}
		})
	})

	t.Run("makes_eight_requests_at_a_time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			now, most := 0, 0
			w := newWaker(func(context.Context, topic) error {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return nil
			}, discard())
			for i := range 100 {
				w.add(topic{session: perdure.SessionID(rune('a' + i))})
			}
			runFor(t, w, time.Hour)
			if most != wakers {
				t.Errorf("%d requests at a time, want %d", most, wakers)
			}
		})
	})
}

// runFor runs a waker for d of virtual time.
func runFor(t *testing.T, w *waker, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	w.run(ctx)
}

// started is one workflow that was started or signaled.
type started struct {
	id   string
	wake wake
}

// recorder is a Temporal that notes what it is told.
type recorder struct {
	all  []started
	fail error
}

func (r *recorder) send(_ context.Context, id string, msg wake, _ string, _ any) error {
	if r.fail == nil {
		r.all = append(r.all, started{id, msg})
	}
	return r.fail
}

// ids returns the ids of the recorded signals, in order.
func (r *recorder) ids() []string {
	var ids []string
	for _, s := range r.all {
		ids = append(ids, s.id)
	}
	return ids
}

// waiting is a session and a task that wait.
func waiting() Waiting {
	return Waiting{
		Sessions: []WaitingSession{{ID: "a", Seq: 4, Grant: 2, Home: "h", Queue: "gpu", Orphaned: true}},
		Runs:     []WaitingRun{{ID: "b", Grant: 1}},
	}
}

// fresh returns a reconciler over what due lists, what Temporal hears, and the reconciler's clock.
func fresh(due func(after string, limit int) (Waiting, error)) (*reconciler, *recorder, *time.Time) {
	temporal, clock := &recorder{}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return &reconciler{host: hostFake{due: due}, starter: starter{names{"p"}, temporal.send}, every: time.Second,
		now: func() time.Time { return clock }}, temporal, &clock
}

// TestReconciler tests the passes over what waits.
func TestReconciler(t *testing.T) {
	t.Parallel()

	t.Run("starts_what_waits_with_what_the_rows_say", func(t *testing.T) {
		t.Parallel()
		r, temporal, _ := fresh(func(string, int) (Waiting, error) { return waiting(), nil })
		if _, err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []started{{"p/session/a", wake{Seq: 4, Grant: 2, Queue: "gpu", Home: "h", Due: true}}, {"p/run/b", wake{Grant: 1}}}
		if !slices.Equal(temporal.all, want) {
			t.Errorf("told %+v, want %+v", temporal.all, want)
		}
	})

	t.Run("has_a_session_driven_that_never_had_a_grant", func(t *testing.T) {
		t.Parallel()
		r, temporal, _ := fresh(func(string, int) (Waiting, error) {
			return Waiting{Sessions: []WaitingSession{{ID: "a", Seq: 4}, {ID: "b", Seq: 4, Grant: 1}}}, nil
		})
		if _, err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []started{{"p/session/a", wake{Seq: 4, Due: true}}, {"p/session/b", wake{Seq: 4, Grant: 1}}}
		if !slices.Equal(temporal.all, want) {
			t.Errorf("told %+v, want %+v", temporal.all, want)
		}
	})

	t.Run("reads_every_page", func(t *testing.T) {
		t.Parallel()
		r, temporal, _ := fresh(func(after string, _ int) (Waiting, error) {
			if after == "" {
				return Waiting{Runs: waiting().Runs, Next: "2"}, nil
			}
			return Waiting{Sessions: waiting().Sessions}, nil
		})
		r.pass(t.Context())
		if got := temporal.ids(); !slices.Equal(got, []string{"p/run/b", "p/session/a"}) {
			t.Errorf("told %v", got)
		}
	})
}

// TestReconcilerRepeats tests what the reconciler says again.
func TestReconcilerRepeats(t *testing.T) {
	t.Parallel()

	t.Run("repeats_itself_after_a_minute_only", func(t *testing.T) {
		t.Parallel()
		r, temporal, clock := fresh(func(string, int) (Waiting, error) { return waiting(), nil })
		for range 12 {
			r.pass(t.Context())
			*clock = clock.Add(5 * time.Second)
		}
		if len(temporal.all) != 2 {
			t.Errorf("told %d times within a minute, want once each", len(temporal.all))
		}
		r.pass(t.Context())
		if len(temporal.all) != 4 {
			t.Errorf("told %d times, want all again after a minute", len(temporal.all))
		}
	})

	t.Run("tells_at_once_of_a_new_event", func(t *testing.T) {
		t.Parallel()
		seq := int64(0)
		r, temporal, _ := fresh(func(string, int) (Waiting, error) {
			seq++
			return Waiting{Sessions: []WaitingSession{{ID: "a", Seq: seq}}}, nil
		})
		r.pass(t.Context())
		r.pass(t.Context())
		if len(temporal.all) != 2 {
			t.Errorf("told %d times, want 2", len(temporal.all))
		}
	})

	t.Run("tries_again_what_failed_in_the_next_pass", func(t *testing.T) {
		t.Parallel()
		r, temporal, _ := fresh(func(string, int) (Waiting, error) { return waiting(), nil })
		temporal.fail = perdure.Unavailable
		if _, err := r.pass(t.Context()); !errors.Is(err, perdure.Unavailable) {
			t.Errorf("error %v, want Unavailable", err)
		}
		temporal.fail = nil
		r.pass(t.Context())
		if len(temporal.all) != 2 {
			t.Errorf("told %d times, want both", len(temporal.all))
		}
	})

	t.Run("forgets_what_waits_no_more", func(t *testing.T) {
		t.Parallel()
		page := waiting()
		r, temporal, _ := fresh(func(string, int) (Waiting, error) { return page, nil })
		r.pass(t.Context())
		page = Waiting{}
		r.pass(t.Context())
		if len(r.signals) != 0 {
			t.Errorf("it remembers %v", r.signals)
		}
		page = waiting()
		r.pass(t.Context())
		if len(temporal.all) != 4 {
			t.Errorf("told %d times, want both again: they wait again", len(temporal.all))
		}
	})
}
