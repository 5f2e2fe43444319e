//go:build live

package temporal

import (
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// TestLiveCapability: a session that needs a capability waits until a process offers it, and is
// driven there, although another process of the store has nothing to do.
func TestLiveCapability(t *testing.T) {
	server := newWorld(t)
	setup := enginetest.Setup{Script: "steps:\n  - text: done\n    repeat: true\n"}
	m, err := scripted.Parse("capability", []byte(setup.Script))
	if err != nil {
		t.Fatal(err)
	}
	w := &engineWorld{Outside: enginerig.NewOutside(), setup: setup, model: m, address: server.address, prefix: "capability",
		shared: memory.New(memory.Config{})}
	t.Cleanup(func() { w.Kill(t) })
	needs := func(_ string, labels map[string]string) string { return labels["needs"] }
	one := w.join(t, Config{CapabilityOf: needs})
	session, err := one.Sessions().Create(t.Context(), perdure.Agent{Labels: perdure.Labels{"needs": "gpu"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Send(t.Context(), session.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	other, err := one.Sessions().Create(t.Context(), perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Send(t.Context(), other.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	if err := one.Sessions().WaitIdle(t.Context(), other.ID); err != nil { // what needs nothing is done meanwhile
		t.Fatal(err)
	}
	if row := w.row(t, session.ID); row.Epoch != 0 {
		t.Fatalf("a session that needs a gpu was driven %d times by a process without one", row.Epoch)
	}

	w.join(t, Config{CapabilityOf: needs, Capabilities: []string{"gpu"}})

	began := time.Now()
	for row := w.row(t, session.ID); row.Unread() || row.Worker != ""; row = w.row(t, session.ID) {
		if time.Since(began) > time.Minute {
			t.Fatalf("it waits still: %+v", row)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (w *engineWorld) row(t *testing.T, id perdure.SessionID) store.Session {
	t.Helper()
	row, err := store.Read(t.Context(), w.shared, func(r store.Reader) (store.Session, error) { return r.Sessions().Get(id) })
	if err != nil {
		t.Fatal(err)
	}
	return row
}
