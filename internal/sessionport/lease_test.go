package sessionport_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

var (
	box = tool.LeaseRequest{Provider: "cloud", Type: "box", ExternalID: "i-1", Duration: time.Hour, Owner: "ada", Metadata: []byte(`{"region":"eu"}`)}
	due = store.LeaseDue{Provider: "cloud", MaxAttempts: 3, StaleAfter: 10 * time.Minute}
)

// TestLeaseHasItsEntry: the entry is written and released in the lease's own commits, under the
// reserved keys (RS3).
func TestLeaseHasItsEntry(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		ports, ctx := w.ports(id), w.Context()

		l, err := ports.Leases.Lease(ctx, box)
		w.ok(err)
		w.same("lease", []any{l.Name, l.Status, l.ExpiresAt, l.Session, l.Owner}, []any{"box i-1", tool.LeaseActive, noon.Add(time.Hour), id, "ada"})
		entry, err := ports.Resources.Resource(ctx, string(l.ID))
		w.ok(err)
		w.same("entry", entry, tool.Resource{
			ID: string(l.ID), Kind: "box", Name: "box i-1", Status: tool.ResourceActive, CreatedAt: noon, UpdatedAt: noon,
			Metadata: fmt.Appendf(nil, `{"leased_resource_external_id":"i-1","leased_resource_id":"%s","leased_resource_provider":"cloud","leased_resource_type":"box","region":"eu"}`, l.ID),
		})
		w.pass(time.Minute)
		_, err = ports.Leases.Lease(ctx, box) // an extension changes nothing visible
		w.ok(err)
		w.same("events", w.told(id), []string{"resource.updated"})
		_, err = ports.Resources.Register(ctx, tool.Resource{ID: string(l.ID), Kind: "box"})
		w.refused(err, perdure.Conflict)

		released, err := ports.Leases.Release(ctx, "cloud", "box", "i-1")
		w.ok(err)
		_, err = ports.Leases.Release(ctx, "cloud", "box", "i-1")
		w.ok(err)
		found, err := ports.Leases.List(ctx)
		w.ok(err)
		w.same("leases", found, []tool.Lease{released})
		entry, err = ports.Resources.Resource(ctx, string(l.ID))
		w.ok(err)
		w.same("statuses", []any{released.Status, entry.Status}, []any{tool.LeaseReleased, tool.ResourceReleased})
		w.same("events", w.told(id), []string{"resource.updated", "resource.updated"})
		_, err = ports.Leases.Release(ctx, "cloud", "box", "i-2")
		w.refused(err, perdure.NotFound)
	})
}

func TestLeaseRefuses(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		foreign := w.task(w.session())
		for want, spoil := range map[perdure.Kind][]func(*tool.LeaseRequest){
			perdure.Invalid: {
				func(o *tool.LeaseRequest) { o.Provider = "" }, func(o *tool.LeaseRequest) { o.Type = "" }, func(o *tool.LeaseRequest) { o.ExternalID = "" },
				func(o *tool.LeaseRequest) { o.ExternalID = "\xff" }, func(o *tool.LeaseRequest) { o.Owner = "\xff" }, func(o *tool.LeaseRequest) { o.Name = "\xff" },
				func(o *tool.LeaseRequest) { o.Duration = time.Second - 1 }, func(o *tool.LeaseRequest) { o.Metadata = []byte(`1`) },
				func(o *tool.LeaseRequest) { o.Metadata = []byte(`{"leased_resource_x":1}`) },
			},
			perdure.NotFound: {func(o *tool.LeaseRequest) { o.Task = foreign }, func(o *tool.LeaseRequest) { o.Task = "task_nobody" }},
		} {
			for _, do := range spoil {
				o := box
				do(&o)
				_, err := w.ports(id).Leases.Lease(w.Context(), o)
				w.refused(err, want)
			}
		}
		w.same("events", w.told(id), []string{})
	})
}

// TestLeaseOfTwoSessions: one resource is one lease, and the session that created it owns it; all
// sessions that used it see its end.
func TestLeaseOfTwoSessions(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		maker, other, ctx := w.session(), w.session(), w.Context()
		first, err := w.ports(maker).Leases.Lease(ctx, box)
		w.ok(err)
		theirs := box
		theirs.Owner, theirs.Duration = "bob", 2*time.Hour

		second, err := w.ports(other).Leases.Lease(ctx, theirs)
		w.ok(err)

		w.same("lease", []any{second.ID, second.Session, second.Owner, second.ExpiresAt}, []any{first.ID, maker, "ada", noon.Add(2 * time.Hour)})
		_, err = w.ports(other).Leases.Release(ctx, "cloud", "box", "i-1")
		w.refused(err, perdure.NotFound)
		_, err = w.ports(maker).Leases.Release(ctx, "cloud", "box", "i-1")
		w.ok(err)
		for _, id := range []perdure.SessionID{maker, other} {
			entry, err := w.ports(id).Resources.Resource(ctx, string(first.ID))
			w.ok(err)
			w.same("entry", entry.Status, tool.ResourceReleased)
			w.same("events", w.told(id), []string{"resource.updated", "resource.updated"})
		}
	})
}

// TestCleanupIsTold: expiry, cleanup and failed cleanup are in the journal with the rows (RS5,
// RS6).
func TestCleanupIsTold(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		good, bad, ctx := w.session(), w.session(), w.Context()
		lost := box
		lost.ExternalID = "i-2"
		_, err := w.ports(good).Leases.Lease(ctx, box)
		w.ok(err)
		_, err = w.ports(bad).Leases.Lease(ctx, lost)
		w.ok(err)
		w.pass(time.Hour)

		claimed, err := sessionport.ClaimLeases(ctx, w.Store, due)
		w.ok(err)
		none, err := sessionport.ClaimLeases(ctx, w.Store, due)
		w.ok(err)
		w.same("claims", []int{len(claimed), len(none)}, []int{2, 0})
		for _, l := range claimed {
			end := store.LeaseEnd{ID: l.ID, Claim: l.CleanupAt}
			if l.Session == bad {
				end.Error = "no"
			}
			_, err = sessionport.EndCleanup(ctx, w.Store, end, false)
			w.ok(err)
			_, err = sessionport.EndCleanup(ctx, w.Store, end, false)
			w.refused(err, perdure.Lost)
		}
		again, err := sessionport.ClaimLeases(ctx, w.Store, due)
		w.ok(err)
		l, err := sessionport.EndCleanup(ctx, w.Store, store.LeaseEnd{ID: again[0].ID, Claim: again[0].CleanupAt, Error: "no", RetryAfter: time.Hour}, true)
		w.ok(err)

		w.same("good", w.told(good), []string{"resource.updated", "lease.expired", "resource.updated"})
		w.same("bad", w.told(bad), []string{"resource.updated", "lease.expired", "lease.cleanup_failed", "resource.updated"})
		w.same("told", w.journal(bad)[2].Fact, perdure.LeaseCleanupFailed{Lease: l})
		w.same("statuses", []any{w.entriesTold(good)[0].Status, w.entriesTold(bad)[0].Status, l.Status}, []any{tool.ResourceReleased, tool.ResourceFailed, tool.LeaseCleanupFailed})
	})
}

// TestCleanupOutlivesItsSession: a lease whose session was removed is cleaned up like any other
// (RS2).
func TestCleanupOutlivesItsSession(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id, ctx := w.session(), w.Context()
		_, err := w.ports(id).Leases.Lease(ctx, box)
		w.ok(err)
		w.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })
		w.pass(time.Hour)

		claimed, err := sessionport.ClaimLeases(ctx, w.Store, due)
		w.ok(err)
		l, err := sessionport.EndCleanup(ctx, w.Store, store.LeaseEnd{ID: claimed[0].ID, Claim: claimed[0].CleanupAt}, false)
		w.ok(err)

		w.same("lease", []any{l.Status, l.Session}, []any{tool.LeaseReleased, perdure.SessionID("")})
	})
}

// grip is the claim of a cleaner, and the number of changes to the lease at that time.
type grip struct {
	lease perdure.Lease
	touch int
}

// TestStaleCleanerLoses runs leases, releases, two cleaners and a clock in any order: the end of a
// cleanup is recorded exactly if the lease has not changed since its claim, so that an extension
// and a newer cleaner always win (RS5).
func TestStaleCleanerLoses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memory", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name)
			rapid.Check(t, func(r *rapid.T) { interleave(w, r) })
		})
	}
}

// interleave plays one history of one lease.
func interleave(w *world, r *rapid.T) {
	id, ctx := w.session(), w.Context()
	port, touches := w.ports(id).Leases, 0
	o := box
	o.ExternalID, o.Provider = fmt.Sprint("i-", w.n), fmt.Sprint("cloud-", w.n)
	key, mine := store.LeaseKey{Provider: o.Provider, Type: o.Type, ExternalID: o.ExternalID}, due
	mine.Provider = o.Provider
	cleaners := map[string]*grip{}
	fences := map[time.Time]bool{}
	var active, released bool
	for range rapid.IntRange(20, 60).Draw(r, "steps") {
		what := rapid.SampledFrom([]string{"lease", "release", "claim A", "claim B", "end A", "end B", "fail A", "pass", "pass"}).Draw(r, "what")
		switch verb, who := what[:3], what[len(what)-1:]; verb {
		case "lea":
			o.Duration = time.Duration(rapid.IntRange(1, 3).Draw(r, "seconds")) * time.Second
			w.ok(second(port.Lease(ctx, o)))
			touches, active, released = touches+1, true, false
		case "rel":
			err := second(port.Release(ctx, key.Provider, key.Type, key.ExternalID))
			if errors.Is(err, perdure.NotFound) && touches == 0 {
				continue
			}
			w.ok(err)
			touches, active, released = touches+1, false, true
		case "cla":
			claimed, err := sessionport.ClaimLeases(ctx, w.Store, mine)
			w.ok(err)
			if len(claimed) == 0 {
				continue
			}
			if l := claimed[0]; released || fences[l.CleanupAt] || active && l.ExpiresAt.After(w.clock()) {
				r.Fatalf("claimed %+v at %s", l, w.clock())
			}
			fences[claimed[0].CleanupAt] = true
			touches, active = touches+1, false
			cleaners[who] = &grip{claimed[0], touches}
		case "end", "fai":
			has := cleaners[who]
			if has == nil {
				continue
			}
			end := store.LeaseEnd{ID: has.lease.ID, Claim: has.lease.CleanupAt}
			if verb == "fai" {
				end.Error, end.RetryAfter = "no", time.Second
			}
			err := second(sessionport.EndCleanup(ctx, w.Store, end, false))
			if wins := has.touch == touches; wins != (err == nil) || !wins && !errors.Is(err, perdure.Lost) {
				r.Fatalf("%s: its claim was the %d. touch of %d, got %v", what, has.touch, touches, err)
			}
			if err == nil {
				touches, released = touches+1, verb == "end"
			}
		case "pas":
			w.pass(rapid.SampledFrom([]time.Duration{0, time.Second, 4 * time.Second, 11 * time.Minute}).Draw(r, "time"))
		}
	}
	if touches == 0 {
		return
	}
	w.ok(w.View(ctx, func(v store.Reader) error {
		l, err := v.Resources().Lease(key)
		if err == nil && (active != (l.Status == perdure.LeaseActive) || released != (l.Status == perdure.LeaseReleased)) {
			r.Fatalf("in the end it is %s, active: %t, released: %t", l.Status, active, released)
		}
		return err
	}))
}

// second is the error of two results.
func second[T any](_ T, err error) error { return err }
