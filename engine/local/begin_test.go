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

// TestBeginKeepsNobody: while an engine that begins writes its worker's row, others may have the store, and look in their
// transaction at whether it runs, as one that starts a task does. So it waits for the store without what they wait for. It
// runs only once even then, and may be asked again when the row could not be written.
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
		if e.works() {
			t.Error("it works before its worker is registered (LG19)")
		}
		if looked == 1 {
			return full
		}
		_, _, again = e.begin(t.Context())
		return nil
	}}
	t.Cleanup(func() { st.Close() })
	made, err := Open(t.Context(), Config{Store: st, Model: m, Tools: tool.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	e = made

	if _, _, err := e.begin(t.Context()); !errors.Is(err, full) || e.works() {
		t.Errorf("it could not be registered: %v", err)
	}
	_, fail, err := e.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer fail(nil)

	if looked != 2 || !e.works() || !errors.Is(again, perdure.Conflict) {
		t.Errorf("looked %d times, and who began beside it got %v", looked, again)
	}
}
