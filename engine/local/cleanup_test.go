package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// yard is a store whose clock the test controls, with an engine over it. The engine looks for
// expired leases all the time.
type yard struct {
	*testing.T
	store.Store
	id perdure.SessionID

	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (y *yard) clock() time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.now
}

// pass advances the store's clock, by which leases are measured.
func (y *yard) pass(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.now = y.now.Add(d)
}

// eachYard runs a law over every store.
func eachYard(t *testing.T, law func(*yard)) {
	t.Helper()
	for _, name := range []string{"memory", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := &yard{T: t, now: time.Now().UTC().Truncate(time.Second)} // deadlines are measured by both clocks
			if name == "memory" {
				y.Store = memory.New(memory.Config{Now: y.clock})
			} else {
				s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir(), Now: y.clock})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				y.Store = s
			}
			law(y)
		})
	}
}

// engine runs an engine over the yard, with a session if there is none yet, until the returned
// function is called.
func (y *yard) engine(cfg local.Config, script string, tools ...tool.Tool) (*local.Engine, func()) {
	y.Helper()
	m, err := scripted.Parse("law", []byte(script))
	if err != nil {
		y.Fatal(err)
	}
	cfg.Store, cfg.Model, cfg.Timing.Drain = y.Store, m, -1
	cfg.Tools = tool.NewRegistry(append(tools, background.Tools(background.Config{})...)...)
	if cfg.Cleanup.Interval == 0 {
		cfg.Cleanup.Interval = time.Millisecond
	}
	eng, err := local.Open(y.Context(), cfg)
	if err != nil {
		y.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(y.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		if err := eng.Run(ctx); err != nil {
			y.Errorf("Run: %v", err)
		}
	})
	end := sync.OnceFunc(func() { stop(); group.Wait() })
	y.Cleanup(end)
	if y.id == "" {
		s, err := eng.Sessions().Create(y.Context(), perdure.Agent{})
		if err != nil {
			y.Fatal(err)
		}
		y.id = s.ID
	}
	return eng, end
}

const keepsStill = `steps: [{text: done, repeat: true}]`

// lease leases a box for an hour.
func (y *yard) lease(owner string) perdure.Lease {
	y.Helper()
	l, err := sessionport.New(sessionport.Config{Store: y.Store})(y.id, tool.Call{}).Leases.Lease(y.Context(),
		tool.LeaseRequest{Provider: "cloud", Type: "box", ExternalID: "i-1", Duration: time.Hour, Owner: owner})
	if err != nil {
		y.Fatal(err)
	}
	return l
}

// boxLease is the current lease.
func (y *yard) boxLease() (l perdure.Lease) {
	y.Helper()
	err := y.View(y.Context(), func(r store.Reader) (err error) {
		l, err = r.Resources().Lease(store.LeaseKey{Provider: "cloud", Type: "box", ExternalID: "i-1"})
		return err
	})
	if err != nil {
		y.Fatal(err)
	}
	return l
}

// ended waits until no cleanup of the box runs, and returns its lease.
func (y *yard) ended() perdure.Lease {
	y.Helper()
	late := time.After(30 * time.Second)
	for look := time.NewTicker(time.Millisecond); ; <-look.C {
		if l := y.boxLease(); l.Status != perdure.LeaseCleaning {
			look.Stop()
			return l
		}
		select {
		case <-late:
			y.Fatal("the clean-up did not end")
		default:
		}
	}
}

// await follows the session's journal up to a fact, and returns it.
func (y *yard) await(passes func(perdure.Fact) bool) (found perdure.Fact) {
	y.Helper()
	ctx, stop := context.WithTimeout(y.Context(), 30*time.Second)
	defer stop()
	enough := errors.New("enough")
	err := y.Watch(ctx, y.id, 0, func(f store.Frame) error {
		if f.Event != nil && passes(f.Event.Fact) {
			found = f.Event.Fact
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		y.Fatalf("it never came: %v", err)
	}
	return found
}

func released(f perdure.Fact) bool {
	u, ok := f.(perdure.ResourceUpdated)
	return ok && u.Entry.Status == perdure.ResourceReleased
}

// cleaner is a cleaner that reports each of its calls, and returns what the test orders.
type cleaner struct {
	calls   chan perdure.Lease
	answers chan func(context.Context, perdure.Lease, func(context.Context) (string, error)) error
}

func newCleaner() *cleaner {
	return &cleaner{calls: make(chan perdure.Lease), answers: make(chan func(context.Context, perdure.Lease, func(context.Context) (string, error)) error)}
}

func (c *cleaner) Clean(ctx context.Context, l perdure.Lease, token func(context.Context) (string, error)) error {
	select {
	case c.calls <- l:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case answer := <-c.answers:
		return answer(ctx, l, token)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// called waits for a call.
func (c *cleaner) called(t *testing.T) perdure.Lease {
	t.Helper()
	select {
	case l := <-c.calls:
		return l
	case <-time.After(30 * time.Second):
		t.Fatal("the cleaner was not called")
		return perdure.Lease{}
	}
}

// answer sets the result of the reported call.
func (c *cleaner) answer(do func(context.Context, perdure.Lease, func(context.Context) (string, error)) error) {
	c.answers <- do
}

func gone(context.Context, perdure.Lease, func(context.Context) (string, error)) error { return nil }

// asksToken is a cleaner that needs the owner's token, and prints it in its error.
func asksToken(ctx context.Context, _ perdure.Lease, token func(context.Context) (string, error)) error {
	found, err := token(ctx)
	if err != nil {
		return err
	}
	return errors.New("the cloud refused token " + found)
}

// connections has only ada's token.
func connections(_ context.Context, owner, provider string) (string, error) {
	if owner == "ada" {
		return "tok_" + owner + "_at_" + provider + "_2718281828", nil
	}
	return "", nil
}

// TestCleanupOwnerToken: a cleanup uses the connection of the user who created the resource, even
// if another user leased it last, and never another member's (RS7).
func TestCleanupOwnerToken(t *testing.T) {
	t.Parallel()
	eachYard(t, func(y *yard) {
		c := newCleaner()
		y.engine(local.Config{Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": c}, ConnectionOf: connections}}, keepsStill)
		y.lease("ada")
		y.lease("bob")
		y.pass(time.Hour)

		got := c.called(y.T)
		var token string
		c.answer(func(ctx context.Context, _ perdure.Lease, of func(context.Context) (string, error)) (err error) {
			token, err = of(ctx)
			return err
		})
		y.await(released)

		if got.Owner != "ada" || token != "tok_ada_at_cloud_2718281828" || got.Attempts != 1 || got.CleanupAt.IsZero() {
			y.Errorf("got token %q for %+v", token, got)
		}
		if l := y.boxLease(); l.Status != perdure.LeaseReleased || l.LastError != "" {
			y.Errorf("got %+v", l)
		}
		y.await(func(f perdure.Fact) bool { _, ok := f.(perdure.LeaseExpired); return ok })
	})
}

// TestCleanupWithoutAToken: no other connection replaces a missing one (RS7).
func TestCleanupWithoutAToken(t *testing.T) {
	t.Parallel()
	eachYard(t, func(y *yard) {
		c := newCleaner()
		y.engine(local.Config{Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": c}, ConnectionOf: connections}}, keepsStill)
		for _, owner := range []string{"bob", ""} {
			y.lease(owner)
			y.pass(time.Hour)
			c.called(y.T)
			c.answer(asksToken)
			y.ended()
			y.pass(time.Minute)
			second := c.called(y.T)

			if want := fmt.Sprintf(`not found: %q is not connected to cloud`, owner); second.LastError != want || second.Attempts != 2 {
				y.Errorf("got %q after %d attempts, want %q", second.LastError, second.Attempts, want)
			}
			c.answer(gone)
			if l := y.ended(); l.Status != perdure.LeaseReleased {
				y.Fatalf("got %+v", l)
			}
		}
	})
}

// TestCleanupRetries: each failure is recorded without secrets and doubles the delay before the
// next attempt, until the attempts end and a notification is sent. Renewing the lease starts over
// (RS6).
func TestCleanupRetries(t *testing.T) {
	t.Parallel()
	eachYard(t, func(y *yard) {
		c := newCleaner()
		y.engine(local.Config{Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": c}, ConnectionOf: connections}}, keepsStill)
		y.lease("ada")
		y.pass(time.Hour)
		pause := time.Minute
		for n := 1; n <= 10; n++ {
			l := c.called(y.T)
			if l.Attempts != n {
				y.Fatalf("got attempt %d, want %d", l.Attempts, n)
			}
			at := y.clock()
			c.answer(asksToken)
			l = y.ended()
			if l.Status != perdure.LeaseFailed || !l.ExpiresAt.Equal(at.Add(pause)) {
				y.Fatalf("attempt %d: got %s until %s, want a pause of %s", n, l.Status, l.ExpiresAt.Sub(at), pause)
			}
			if strings.Contains(l.LastError, "2718281828") || !strings.HasPrefix(l.LastError, "the cloud refused token ") {
				y.Errorf("got error %q", l.LastError)
			}
			y.pass(pause)
			pause = min(2*pause, time.Hour)
		}

		told := y.await(func(f perdure.Fact) bool { _, ok := f.(perdure.LeaseCleanupFailed); return ok }).(perdure.LeaseCleanupFailed)
		if told.Lease.Attempts != 10 || strings.Contains(told.Lease.LastError, "2718281828") {
			y.Errorf("got %+v", told)
		}
		y.pass(1000 * time.Hour)
		y.lease("ada")
		y.pass(time.Hour)
		if l := c.called(y.T); l.Attempts != 1 {
			y.Errorf("got attempt %d of a lease that was refreshed, want the first", l.Attempts)
		}
		c.answer(gone)
		y.await(released)
	})
}

// TestCleanupPanics: a panic of a cleaner is a failure, and the engine keeps working.
func TestCleanupPanics(t *testing.T) {
	t.Parallel()
	eachYard(t, func(y *yard) {
		c := newCleaner()
		y.engine(local.Config{Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": c}}}, keepsStill)
		y.lease("ada")
		y.pass(time.Hour)
		c.called(y.T)
		c.answer(func(context.Context, perdure.Lease, func(context.Context) (string, error)) error { panic("oh") })
		y.ended()
		y.pass(time.Minute)

		second := c.called(y.T)
		c.answer(gone)
		y.await(released)

		if second.LastError != "the cleaner panicked" {
			y.Errorf("got %q", second.LastError)
		}
	})
}

// TestCleanupGoesOn: an engine that stops in the middle of a cleanup records nothing, and the next
// one repeats it; in a shared store, once the claim has expired.
func TestCleanupGoesOn(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %t", shared), func(t *testing.T) {
			t.Parallel()
			eachYard(t, func(y *yard) {
				first, second := newCleaner(), newCleaner()
				_, end := y.engine(local.Config{Workers: local.Workers{Shared: shared, Lease: 2 * time.Hour}, Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": first}}}, keepsStill)
				y.lease("ada")
				y.pass(time.Hour)
				l := first.called(y.T)
				end() // the cleanup still runs

				if diff := cmp.Diff(l, y.boxLease()); diff != "" {
					y.Errorf("after the end (-before +after):\n%s", diff)
				}
				y.engine(local.Config{Workers: local.Workers{Shared: shared, Lease: 2 * time.Hour}, Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": second}, Claim: time.Hour}}, keepsStill)
				if shared {
					y.pass(59 * time.Minute)
					select {
					case <-second.calls:
						y.Fatal("a claim that is not stale was taken over")
					case <-time.After(50 * time.Millisecond): // fifty scans
					}
					y.pass(time.Minute)
				}
				if again := second.called(y.T); again.Attempts != 2 || !again.CleanupAt.After(l.CleanupAt) && shared {
					y.Errorf("got %+v", again)
				}
				second.answer(gone)
				y.await(released)
			})
		})
	}
}

// TestCleanupNeverCameBack: a lease whose every attempt died with its process ends as failed,
// without another attempt.
func TestCleanupNeverCameBack(t *testing.T) {
	t.Parallel()
	eachYard(t, func(y *yard) {
		for range 2 {
			c := newCleaner()
			_, end := y.engine(local.Config{Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": c}, Attempts: 2}}, keepsStill)
			if l := y.lastLease(); l.ID == "" {
				y.lease("ada")
				y.pass(time.Hour)
			}
			c.called(y.T)
			end()
		}
		y.engine(local.Config{Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": newCleaner()}, Attempts: 2}}, keepsStill)

		told := y.await(func(f perdure.Fact) bool { _, ok := f.(perdure.LeaseCleanupFailed); return ok }).(perdure.LeaseCleanupFailed)

		if told.Lease.Status != perdure.LeaseFailed || !strings.Contains(told.Lease.LastError, "check the cleaner") {
			y.Errorf("got %+v", told)
		}
	})
}

// lastLease is the session's last lease; the zero value if there is none.
func (y *yard) lastLease() (l perdure.Lease) {
	y.Helper()
	err := y.View(y.Context(), func(r store.Reader) error {
		found, err := r.Resources().Leases(y.id)
		if len(found) > 0 {
			l = found[len(found)-1]
		}
		return err
	})
	if err != nil {
		y.Fatal(err)
	}
	return l
}

// renter leases two boxes for its task, one of which stays.
type renter struct{ leased chan struct{} }

func (renter) Spec() tool.Spec {
	return tool.Spec{Name: "rent", Description: "x", Class: perdure.AtMostOnce}
}

func (r renter) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	for _, o := range []tool.LeaseRequest{
		{Provider: "cloud", Type: "box", ExternalID: "i-1", Duration: time.Hour, Task: call.Task},
		{Provider: "cloud", Type: "box", ExternalID: "i-kept", Duration: time.Hour, Task: call.Task, Keep: true},
	} {
		if _, err := env.Leases.Lease(ctx, o); err != nil {
			return tool.Internal(err)
		}
	}
	<-r.leased
	return tool.Success("rented")
}

func (r renter) RunBackground(ctx context.Context, call tool.Call, env tool.Env, _ tool.Sink) tool.Result {
	return r.Run(ctx, call, env)
}

const rents = `
rules:
  - when: {last_role: user}
    calls: [{name: spawn_background, args: {tool: rent, args: {}}}]
steps: [{text: it goes on, repeat: true}]
`

// TestCleanupOfTasks: a resource that only a task holds is cleaned up when the task has ended,
// however long its lease is, unless it is marked to be kept (RS8). A turn is not blocked while a
// cleaner works.
func TestCleanupOfTasks(t *testing.T) {
	t.Parallel()
	eachYard(t, func(y *yard) {
		c, tenant := newCleaner(), renter{leased: make(chan struct{})}
		eng, _ := y.engine(local.Config{Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{"cloud": c}}}, rents, tenant)
		if _, err := eng.Send(y.Context(), y.id, perdure.Text("rent")); err != nil {
			y.Fatal(err)
		}
		y.await(func(f perdure.Fact) bool {
			u, ok := f.(perdure.ResourceUpdated)
			return ok && strings.HasSuffix(u.Entry.Name, "i-kept")
		})
		if l := y.boxLease(); l.Status != perdure.LeaseActive || l.Task == "" {
			y.Errorf("got %+v while the task is live", l)
		}
		close(tenant.leased)

		l := c.called(y.T)
		ctx, stop := context.WithTimeout(y.Context(), 30*time.Second)
		defer stop()
		if err := eng.Sessions().WaitIdle(ctx, y.id); err != nil {
			y.Errorf("while a cleaner works: %v", err)
		}
		c.answer(gone)
		y.await(released)

		if l.ExternalID != "i-1" || l.Attempts != 1 {
			y.Errorf("got %+v", l)
		}
		select {
		case l := <-c.calls:
			y.Errorf("%s was to be kept", l.ExternalID)
		case <-time.After(30 * time.Millisecond): // thirty scans
		}
	})
}
