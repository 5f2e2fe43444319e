package ratelimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/internal/ratelimit"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// TestMain looks for goroutines that a limiter left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allowed asks n times and returns how often the answer was yes.
func allowed(l *ratelimit.Limiter, org string, n int) (yes int) {
	for range n {
		if l.CheckOrg(context.Background(), org) {
			yes++
		}
	}
	return yes
}

// TestLimitSlides: in any minute no more calls are allowed than the limit; and a call older than a
// minute and a second does not count.
func TestLimitSlides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 50
		l := ratelimit.New(ratelimit.Config{Store: memory.New(memory.Config{}), PerMinute: limit})
		var went []time.Time
		for step := range 2000 {
			<-time.After(time.Duration(50+step*37%400) * time.Millisecond)
			if l.CheckOrg(t.Context(), "org") {
				went = append(went, time.Now())
			}
		}

		for i := limit; i < len(went); i++ {
			if span := went[i].Sub(went[i-limit]); span < store.RateWindow {
				t.Fatalf("%d calls within %s", limit+1, span)
			}
		}
		hours := went[len(went)-1].Sub(went[0])
		if most := int(hours/(store.RateWindow+time.Second)) * limit; len(went) < most {
			t.Errorf("%d calls went out in %s, and %d could have", len(went), hours, most)
		}
		<-time.After(store.RateWindow + time.Second)
		if n := allowed(l, "org", limit+5); n != limit {
			t.Errorf("after a quiet minute %d went out, want %d", n, limit)
		}
	})
}

// TestLimitIsShared: instances over one store have one limit together, organisations one each.
func TestLimitIsShared(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() (store.Store, error){
		"memory": func() (store.Store, error) { return memory.New(memory.Config{}), nil },
		"sqlite": func() (store.Store, error) {
			return sqlite.Open(context.Background(), sqlite.Config{Dir: t.TempDir()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			var went atomic.Int64
			var group sync.WaitGroup
			for range 4 { // instances
				l := ratelimit.New(ratelimit.Config{Store: st, PerMinute: 30, Patience: time.Minute})
				for range 20 {
					group.Go(func() { went.Add(int64(allowed(l, "org", 1))) })
				}
			}
			group.Wait()

			if went.Load() != 30 {
				t.Errorf("%d calls went out, want 30", went.Load())
			}
			if n := allowed(ratelimit.New(ratelimit.Config{Store: st, PerMinute: 30, Patience: time.Minute}), "another", 31); n != 30 {
				t.Errorf("%d calls of another organisation went out, want 30", n)
			}
		})
	}
}

// TestLimiterFallsBack: when the store fails, the window of the process decides, which knows what
// went out through it before; each such answer is counted; and the store decides again once it
// answers (RL2).
func TestLimiterFallsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		st := faulty.New(memory.New(memory.Config{}), faulty.Plan{At: func(p faulty.Point) faulty.Fault {
			if sick.Load() && p.Method == "InTx" {
				return faulty.Fault{Act: faulty.Fail}
			}
			return faulty.Fault{}
		}})
		l := ratelimit.New(ratelimit.Config{Store: st, PerMinute: 10})
		if n := allowed(l, "org", 4); n != 4 || l.Counts() != (ratelimit.Counts{Allowed: 4}) {
			t.Fatalf("%d went out, %+v", n, l.Counts())
		}

		sick.Store(true)
		if n := allowed(l, "org", 20); n != 6 {
			t.Errorf("%d calls went out while the store failed, want the 6 that were left", n)
		}
		if want := (ratelimit.Counts{Allowed: 10, Denied: 14, FellBack: 20}); l.Counts() != want {
			t.Errorf("got %+v, want %+v", l.Counts(), want)
		}
		if n := allowed(l, "another", 11); n != 10 {
			t.Errorf("%d calls of another organisation went out, want 10", n)
		}
		<-time.After(store.RateWindow + time.Second)
		if n := allowed(l, "org", 20); n != 10 {
			t.Errorf("%d calls went out a minute later, want 10", n)
		}

		sick.Store(false)
		<-time.After(time.Second) // in which it is not asked again
		before := l.Counts().FellBack
		if n := allowed(l, "org", 20); n != 10 || l.Counts().FellBack != before {
			t.Errorf("%d calls went out by the store, want its 10; %+v", n, l.Counts())
		}
	})
}

// TestLimiterDoesNotHang: a store that does not answer delays a call by at most the patience, and
// not every call.
func TestLimiterDoesNotHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		release, held := make(chan struct{}), make(chan struct{})
		go func() {
			_ = st.InTx(context.Background(), func(store.Tx) error { close(held); <-release; return nil })
		}()
		<-held
		l, begun := ratelimit.New(ratelimit.Config{Store: st, PerMinute: 1000}), time.Now()

		n := allowed(l, "org", 100)

		if took := time.Since(begun); n != 100 || took != 250*time.Millisecond {
			t.Errorf("%d of 100 went out, in %s", n, took)
		}
		close(release)
	})
}

// TestLimiterReports: each answer is reported with who gave it; the log has one warning for an
// outage, however many calls it lasts, and one line about its end.
func TestLimiterReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		var log strings.Builder
		counted := map[string]int{}
		l := ratelimit.New(ratelimit.Config{Store: st, PerMinute: 4, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Decided: func(org string, allowed, alone bool) { counted[fmt.Sprint(org, " ", allowed, " ", alone)]++ }})
		allowed(l, "org", 2)
		release, held := make(chan struct{}), make(chan struct{})
		go func() {
			_ = st.InTx(context.Background(), func(store.Tx) error { close(held); <-release; return nil })
		}()
		<-held
		allowed(l, "org", 2)
		<-time.After(5 * time.Second) // the store is asked again, and does not answer
		allowed(l, "org", 1)
		close(release)
		<-time.After(5 * time.Second)
		allowed(l, "org", 1)

		want := map[string]int{"org true false": 3, "org true true": 2, "org false true": 1}
		if !maps.Equal(counted, want) {
			t.Errorf("got %v, want %v", counted, want)
		}
		if warned, ended := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "shared again"); warned != 1 || ended != 1 {
			t.Errorf("%d warnings and %d ends, want one of each:\n%s", warned, ended, log.String())
		}
	})
}

// TestLimiterForgetsOrganisations: what many organisations leave behind is dropped.
func TestLimiterForgetsOrganisations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.New(ratelimit.Config{Store: memory.New(memory.Config{})})
		for i := range 1200 {
			allowed(l, fmt.Sprint("org ", i), 1)
		}
		<-time.After(store.RateWindow + time.Second)
		allowed(l, "org", 1)

		if n := l.Windows(); n > 2 {
			t.Errorf("%d windows are kept", n)
		}
	})
}
