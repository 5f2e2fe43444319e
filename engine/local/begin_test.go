package local

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// watched is a store that calls look before each transaction.
type watched struct {
	store.Store
	look func() error
}

func (w watched) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if err := w.look(); err != nil {
		return err
	}
	return w.Store.InTx(ctx, fn)
}

// TestBeginKeepsNobody: an engine that writes its worker's row must not block other transactions,
// which check whether it runs, as starting a task does. So it waits for the store without holding
// the lock that they need. It runs only once even then, and a failed write of the row may be
// retried.
func TestBeginKeepsNobody(t *testing.T) {
	t.Parallel()
	m, err := scripted.Parse("script.yaml", []byte("steps: [{text: a}]"))
	if err != nil {
		t.Fatal(err)
	}
	var e *Engine
	var again error
	looked, full := 0, errors.New("no room")
	st := watched{memory.New(memory.Config{}), func() error {
		if e == nil {
			return nil
		}
		if looked++; !e.mu.TryLock() {
			t.Error("the engine is locked while its worker is registered")
			return nil
		}
		e.mu.Unlock()
		if (scheduler{e}).Running() {
			t.Error("it works before its worker is registered (LG19)")
		}
		if looked == 1 {
			return full
		}
		_, _, again = e.registerAndStart(t.Context())
		return nil
	}}
	t.Cleanup(func() { st.Close() })
	made, err := Open(t.Context(), Config{Store: st, Model: m, Tools: tool.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	e = made

	if _, _, err := e.registerAndStart(t.Context()); !errors.Is(err, full) || (scheduler{e}).Running() {
		t.Errorf("it could not be registered: %v", err)
	}
	_, fail, err := e.registerAndStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer fail(nil)

	if looked != 2 || !(scheduler{e}).Running() || !errors.Is(again, perdure.Conflict) {
		t.Errorf("%d views, and the concurrent start got %v", looked, again)
	}
}
