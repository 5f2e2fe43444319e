package local_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestRefreshIsNoConnection: a call whose tool refuses the connection that there is waits for its
// user to connect again. A refresh of the token, or another change of its row, does not end the
// wait; connecting does.
func TestRefreshIsNoConnection(t *testing.T) {
	t.Parallel()
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	model, err := scripted.Parse("waits", []byte("steps:\n  - calls: [{name: picky}]\n  - {text: done, repeat: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	spec := tool.Spec{Name: "picky", Description: "Refuses every connection.", Class: perdure.Pure}
	picky := tool.New(spec, func(context.Context, struct{}, tool.Env) (string, error) {
		return "", &tool.NotConnected{Provider: "demo"}
	})
	st := memory.New(memory.Config{})
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: model, Tools: tool.NewRegistry(picky),
		Storage: local.Storage{Secrets: local.Secrets{Keys: keys}}, Timing: local.Timing{Grace: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	connect := func() {
		t.Helper()
		if _, err := eng.Connections().Put(t.Context(), engine.ConnectionWrite{Provider: "demo", Token: "a token"}); err != nil {
			t.Fatal(err)
		}
	}
	connect()
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{ClientConnections: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Send(t.Context(), s.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	status := func() perdure.SessionStatus {
		t.Helper()
		now, err := eng.Sessions().Get(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.Status
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for status() != perdure.SessionWaiting {
		<-tick.C
	}
	markRefreshed(t, st, store.ConnectionKey{User: "user", Provider: "demo"})

	// the connection of another service makes the engine look at all calls that wait
	if _, err := eng.Connections().Put(t.Context(), engine.ConnectionWrite{Provider: "other", Token: "a token"}); err != nil {
		t.Fatal(err)
	}
	if answered(t, st, s.ID) {
		t.Error("the refresh answered the call")
	}
	connect()
	if !answered(t, st, s.ID) {
		t.Error("the new connection did not answer the call")
	}
}

// answered reports whether a call of a session has its result. The engine commits it before the
// request that connects returns.
func answered(t *testing.T, st store.Store, id perdure.SessionID) bool {
	t.Helper()
	var events []perdure.Event
	err := st.View(t.Context(), func(r store.Reader) (err error) {
		events, err = r.Journal().Events(id, 0, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e perdure.Event) bool {
		_, is := e.Fact.(perdure.ToolCompleted)
		return is
	})
}

// markRefreshed changes the row of a connection as a refresh of its token does.
func markRefreshed(t *testing.T, st store.Store, key store.ConnectionKey) {
	t.Helper()
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		row, _, err := tx.Directory().Connections().Get(key)
		if err != nil {
			return err
		}
		var fields map[string]any
		if err := json.Unmarshal(row.Metadata, &fields); err != nil {
			return err
		}
		fields["refreshing_at"] = tx.Now()
		if row.Metadata, err = json.Marshal(fields); err == nil {
			_, err = tx.Directory().Connections().Put(row)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
