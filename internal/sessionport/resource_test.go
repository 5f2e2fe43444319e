package sessionport_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/tool"
)

// TestResources: an entry is written together with its event, and only registering again changes a
// terminal status (RS1).
func TestResources(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		task := w.task(id)
		port, ctx := w.ports(id).Resources, w.Context()
		given := tool.Resource{ID: "box 1", Kind: "sandbox", Metadata: []byte(`{ "region": "eu" }`), Task: task}

		first, err := port.Register(ctx, given)
		w.ok(err)
		w.same("entry", first, tool.Resource{
			ID: "box 1", Kind: "sandbox", Name: "box 1", Status: tool.ResourceActive, Metadata: []byte(`{"region":"eu"}`), Task: task, CreatedAt: noon, UpdatedAt: noon,
		})
		w.pass(time.Minute)
		failed, err := port.UpdateStatus(ctx, "box 1", tool.ResourceFailed)
		w.ok(err)
		_, err = port.UpdateStatus(ctx, "box 1", tool.ResourceFailed)
		w.ok(err)
		_, err = port.UpdateStatus(ctx, "box 1", tool.ResourceActive)
		w.refused(err, perdure.Conflict)
		_, err = port.UpdateStatus(ctx, "box 2", tool.ResourceFailed)
		w.refused(err, perdure.NotFound)
		got, err := port.Resource(ctx, "box 1")
		w.ok(err)
		w.same("entry", got, failed)
		again, err := port.Register(ctx, given)
		w.ok(err)
		w.same("again", []any{again.Status, again.CreatedAt, again.UpdatedAt}, []any{tool.ResourceActive, noon, noon.Add(time.Minute)})
		w.same("events", w.told(id), []string{"resource.updated", "resource.updated", "resource.updated"})
		for _, want := range []bool{true, false} {
			there, err := port.Deregister(ctx, "box 1")
			w.ok(err)
			w.same("whether it was there", there, want)
		}
		w.same("events", len(w.told(id)), 4)
		w.same("entries as they are told", w.entriesTold(id), []tool.Resource{})
		_, err = port.Resource(ctx, "box 1")
		w.refused(err, perdure.NotFound)
		e := w.journal(id)[0]
		w.same("event", []any{e.Call, e.Actor}, []any{perdure.CallID("call_1"), "runtime"})
	})
}

func TestResourcesRefuse(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		foreign := w.task(w.session())
		port, ctx := w.ports(id).Resources, w.Context()
		long := strings.Repeat("x", 17<<10)
		for what, r := range map[string]tool.Resource{
			"id":             {Kind: "k"},
			"long id":        {ID: long[:257], Kind: "k"},
			"id that is no":  {ID: "\xff", Kind: "k"},
			"kind":           {ID: "a"},
			"long kind":      {ID: "a", Kind: long[:257]},
			"name":           {ID: "a", Kind: "k", Name: long[:513]},
			"status":         {ID: "a", Kind: "k", Status: "gone"},
			"metadata":       {ID: "a", Kind: "k", Metadata: []byte(`[1]`)},
			"null":           {ID: "a", Kind: "k", Metadata: []byte(`null`)},
			"twice":          {ID: "a", Kind: "k", Metadata: []byte(`{"a":1,"a":2}`)},
			"large metadata": {ID: "a", Kind: "k", Metadata: json.RawMessage(`{"a":"` + long + `"}`)},
			"a lease's keys": {ID: "a", Kind: "k", Metadata: []byte(`{"leased_resource_id":"x"}`)},
		} {
			_, err := port.Register(ctx, r)
			if w.refused(err, perdure.Invalid); err != nil && len(err.Error()) > 400 {
				w.Errorf("%s: got %d bytes of error", what, len(err.Error()))
			}
		}
		_, err := port.Register(ctx, tool.Resource{ID: "a", Kind: "k", Task: foreign})
		w.refused(err, perdure.NotFound)
		_, err = port.UpdateStatus(ctx, "a", "gone")
		w.refused(err, perdure.Invalid)
		_, err = port.List(ctx, "", "gone")
		w.refused(err, perdure.Invalid)
		_, err = w.ports("session_nobody").Resources.Register(ctx, tool.Resource{ID: "a", Kind: "k"})
		w.refused(err, perdure.NotFound)
		w.same("events", w.told(id), []string{})
	})
}

// TestResourcesFence: an attempt that was replaced writes nothing (TK6).
func TestResourcesFence(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		task := w.task(id)
		open := sessionport.New(sessionport.Config{Store: w.Store})
		old := open(id, tool.Call{ID: "call_1", Task: task, Attempt: 1})
		w.update(id, task, perdure.TaskUpdate{IncrementAttempt: true})

		_, err := old.Resources.Register(w.Context(), tool.Resource{ID: "a", Kind: "k"})
		w.refused(err, perdure.Lost)
		_, err = old.Leases.Lease(w.Context(), tool.LeaseRequest{Provider: "p", Type: "t", ExternalID: "x", Duration: time.Hour})
		w.refused(err, perdure.Lost)
		w.refused(old.Session.SetTitle(w.Context(), "late"), perdure.Lost)
		_, err = open(id, tool.Call{ID: "call_1", Task: task, Attempt: 2}).Resources.Register(w.Context(), tool.Resource{ID: "a", Kind: "k"})
		w.ok(err)
	})
}

// TestResourcesAreAsTold: after any operations, the registry equals the fold of the journal (PR2).
func TestResourcesAreAsTold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, "memory")
		id := w.session()
		ports, ctx := w.ports(id), w.Context()
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			name := fmt.Sprint("x", rapid.IntRange(0, 2).Draw(r, "which"))
			w.pass(time.Duration(rapid.IntRange(0, 2).Draw(r, "seconds")) * time.Second)
			switch rapid.SampledFrom([]string{"register", "status", "deregister", "lease", "release"}).Draw(r, "what") {
			case "register":
				_, _ = ports.Resources.Register(ctx, tool.Resource{ID: name, Kind: "k"})
			case "status":
				_, _ = ports.Resources.UpdateStatus(ctx, name, tool.ResourceCompleted)
			case "deregister":
				_, _ = ports.Resources.Deregister(ctx, name)
			case "lease":
				_, _ = ports.Leases.Lease(ctx, tool.LeaseRequest{Provider: "p", Type: "t", ExternalID: name, Duration: time.Hour})
			case "release":
				_, _ = ports.Leases.Release(ctx, "p", "t", name)
			}
		}

		found, err := ports.Resources.List(ctx, "", "")
		if err != nil {
			r.Fatal(err)
		}
		told := w.entriesTold(id)
		if fmt.Sprintf("%+v", found) != fmt.Sprintf("%+v", told) {
			r.Fatalf("got entries\n%+v\nin the journal\n%+v", found, told)
		}
	})
}

// TestReleaseFromOutside: a person's statement ends an entry and its lease, and is recorded in the
// person's name. It is refused while the task is running, if the entry has ended otherwise, or if
// the lease is another session's.
func TestReleaseFromOutside(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id, other := w.session(), w.session()
		task, ctx := w.task(id), w.Context()
		ports := w.ports(id)
		for _, r := range []tool.Resource{{ID: "plain", Kind: "k"}, {ID: "busy", Kind: "k", Task: task}, {ID: "done", Kind: "k", Status: tool.ResourceCompleted}} {
			_, err := ports.Resources.Register(ctx, r)
			w.ok(err)
		}
		lease, err := ports.Leases.Lease(ctx, box)
		w.ok(err)
		_, err = w.ports(other).Leases.Lease(ctx, box)
		w.ok(err)
		release := func(session perdure.SessionID, resource string) (perdure.Resource, error) {
			return sessionport.Release(ctx, w.Store, session, resource, "operator")
		}

		for _, name := range []string{"plain", "plain"} {
			got, err := release(id, name)
			w.ok(err)
			w.same("status", got.Status, tool.ResourceReleased)
		}
		_, err = release(id, "busy")
		w.refused(err, perdure.Conflict)
		_, err = release(id, "done")
		w.refused(err, perdure.Conflict)
		_, err = release(id, "nothing")
		w.refused(err, perdure.NotFound)
		_, err = release("session_nobody", "plain")
		w.refused(err, perdure.NotFound)
		_, err = release(other, string(lease.ID))
		w.refused(err, perdure.Conflict)
		_, err = release(id, string(lease.ID))
		w.ok(err)
		found, err := ports.Leases.List(ctx)
		w.ok(err)
		theirs, err := w.ports(other).Resources.Resource(ctx, string(lease.ID))
		w.ok(err)
		w.same("the lease, and the other session's entry", []any{found[0].Status, theirs.Status}, []any{tool.LeaseReleased, tool.ResourceReleased})
		var by []string
		for _, e := range w.journal(id) {
			if u, ok := e.Fact.(perdure.ResourceUpdated); ok && u.Entry.Status == perdure.ResourceReleased {
				by = append(by, e.Actor)
			}
		}
		w.same("who released", by, []string{"operator", "operator"})
	})
}
