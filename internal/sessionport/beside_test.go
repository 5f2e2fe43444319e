package sessionport_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// noon is the start time of these tests.
var noon = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)

// world is a store whose clock the test controls.
type world struct {
	*testing.T
	store.Store
	mu  sync.Mutex
	now time.Time // guarded by mu
	n   int       // sessions and tasks made
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass advances the clock.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// eachStore runs a law over every store.
func eachStore(t *testing.T, law func(*world)) {
	t.Helper()
	for _, name := range []string{"memory", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(newWorld(t, name))
		})
	}
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	w := &world{T: t, now: noon}
	if name == "memory" {
		w.Store = memory.New(memory.Config{Now: w.clock})
		return w
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir(), Now: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	w.Store = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// session makes a session of the default org.
func (w *world) session() perdure.SessionID {
	w.Helper()
	return w.sessionOf("", "")
}

// sessionOf makes a session of a user of an org.
func (w *world) sessionOf(org, user string) perdure.SessionID {
	w.Helper()
	w.n++
	id := perdure.SessionID(fmt.Sprintf("session_%032d", w.n))
	w.write(func(tx store.Tx) error {
		if err := tx.Sessions().Create(store.Session{ID: id, Org: org, User: user, Status: perdure.SessionStarted, Title: "first"}); err != nil {
			return err
		}
		return tx.Journal().Append(id, []perdure.Event{{ID: perdure.EventID("event_of_" + id), Actor: "user", Fact: perdure.SessionCreated{Agent: perdure.Agent{Title: "first"}}}})
	})
	return id
}

// task makes a task of a session.
func (w *world) task(id perdure.SessionID) perdure.TaskID {
	w.Helper()
	w.n++
	task := perdure.Task{
		ID: perdure.TaskID(fmt.Sprintf("task_%032d", w.n)), Session: id, RootSession: id, Kind: perdure.KindBackgroundTool, Origin: perdure.OriginSpawned,
		State: perdure.TaskRunning, Attempt: 1, CreatedAt: w.clock(),
	}
	w.write(func(tx store.Tx) error { _, _, err := tx.Tasks().Create(task); return err })
	return task.ID
}

// update changes a task.
func (w *world) update(id perdure.SessionID, task perdure.TaskID, u perdure.TaskUpdate) {
	w.Helper()
	u.Attempt = 1
	w.write(func(tx store.Tx) error { _, err := tx.Tasks().Update(id, task, u); return err })
}

// ports are the ports of a call of a session.
func (w *world) ports(id perdure.SessionID) tool.Ports {
	return sessionport.New(sessionport.Config{Store: w.Store})(id, tool.Call{ID: "call_1"})
}

func (w *world) write(fn func(store.Tx) error) {
	w.Helper()
	if err := w.InTx(w.Context(), fn); err != nil {
		w.Fatal(err)
	}
}

// journal returns the events of a session after the first.
func (w *world) journal(id perdure.SessionID) (events []perdure.Event) {
	w.Helper()
	err := w.View(w.Context(), func(r store.Reader) (err error) {
		events, err = r.Journal().Events(id, 1, 0)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return events
}

// told are the types of the events of a session after the first.
func (w *world) told(id perdure.SessionID) (types []string) {
	w.Helper()
	for _, e := range w.journal(id) {
		types = append(types, string(e.Type()))
	}
	return types
}

// entries are a session's resource entries by its journal.
func (w *world) entriesTold(id perdure.SessionID) []tool.Resource {
	w.Helper()
	var entries []tool.Resource
	for _, e := range w.journal(id) {
		f, ok := e.Fact.(perdure.ResourceUpdated)
		if !ok {
			continue
		}
		kept, found := entries[:0:0], false
		for _, r := range entries {
			switch {
			case r.ID != f.Entry.ID:
				kept = append(kept, r)
			case !f.Removed:
				kept, found = append(kept, f.Entry), true
			}
		}
		if !found && !f.Removed {
			kept = append(kept, f.Entry)
		}
		entries = kept
	}
	return entries
}

// same compares; nothing is the same as none.
func (w *world) same(what string, got, want any) {
	w.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// ok fails unless there is no error.
func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// refused fails unless an error is of a kind.
func (w *world) refused(err error, want perdure.Kind) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("got error %v, want %v", err, want)
	}
}
