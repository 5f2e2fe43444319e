package local_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// fate is the outcome of one transaction.
type fate int

const (
	commits fate = iota // commits and returns nil
	aborts              // writes nothing and returns Unavailable
	forgets             // commits and returns Unavailable
)

// hooked is a store that chooses the fate of a transaction by the facts that it appends.
type hooked struct {
	store.Store
	mu     sync.Mutex
	judge  func(facts []perdure.Fact) fate // guarded by mu; nil: everything commits. May block
	noView func() bool                     // guarded by mu; whether a View fails
}

func (h *hooked) set(judge func([]perdure.Fact) fate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judge = judge
}

func (h *hooked) setView(fails func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noView = fails
}

func (h *hooked) View(ctx context.Context, fn func(store.Reader) error) error {
	h.mu.Lock()
	fails := h.noView
	h.mu.Unlock()
	if fails != nil && fails() {
		return perdure.Unavailable
	}
	return h.Store.View(ctx, fn)
}

func (h *hooked) InTx(ctx context.Context, fn func(store.Tx) error) error {
	h.mu.Lock()
	judge := h.judge
	h.mu.Unlock()
	answer := commits
	err := h.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &spyTx{Tx: tx}
		if err := fn(spy); err != nil {
			return err
		}
		if judge != nil {
			answer = judge(spy.facts)
		}
		if answer == aborts {
			return perdure.Unavailable
		}
		return nil
	})
	if err == nil && answer == forgets {
		return perdure.Unavailable
	}
	return err
}

// spyTx records what is appended.
type spyTx struct {
	store.Tx
	facts []perdure.Fact
}

// spyTxJournal overrides a part of one noun.
type spyTxJournal struct {
	store.Journal
	*spyTx
}

func (s *spyTx) Journal() store.Journal { return spyTxJournal{s.Tx.Journal(), s} }

// spyTxReader reads what the transaction shows.
type spyTxReader struct {
	store.Reader
	tx *spyTx
}

func (s *spyTx) Reader() store.Reader { return spyTxReader{s.Tx.Reader(), s} }

func (r spyTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (s spyTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		s.facts = append(s.facts, e.Fact)
	}
	return s.Journal.Append(id, events)
}

func has[F perdure.Fact](facts []perdure.Fact, match func(F) bool) bool {
	for _, f := range facts {
		if g, ok := f.(F); ok && match(g) {
			return true
		}
	}
	return false
}

func any1[F any](F) bool { return true }

// rig is a world over a hooked store with a session.
type rig struct {
	*world
	st  *hooked
	eng engine.Engine
	id  perdure.SessionID
	ctx context.Context
	t   *testing.T
}

func newRig(t *testing.T, s enginetest.Setup) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	t.Cleanup(cancel)
	st := &hooked{Store: memory.New(memory.Config{})}
	r := &rig{st: st, ctx: ctx, t: t}
	r.world = newWorld(t, s, func(*testing.T) store.Store { return st }, func(store.Store) {})
	r.eng = r.Start(t)
	session, err := r.eng.Sessions().Create(ctx, s.Agent)
	if err != nil {
		t.Fatal(err)
	}
	r.id = session.ID
	return r
}

func (r *rig) say(text string) {
	r.t.Helper()
	if _, err := r.eng.Send(r.ctx, r.id, perdure.Text(text)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) story() string {
	events, _ := r.eng.Events(context.Background(), r.id, 0, 0)
	text := ""
	for _, e := range events {
		detail := ""
		switch f := e.Fact.(type) {
		case perdure.TaskUpdated:
			detail = f.Task.Tool + " " + string(f.Task.State)
		case perdure.TaskCreated:
			detail = f.Task.Tool + " " + string(f.Task.State)
		case perdure.ToolCompleted:
			detail = f.Name + " " + string(f.Status)
		case perdure.ToolStarted:
			detail = f.Name
		case perdure.ToolTakenOver:
			detail = f.Name + " " + string(f.How)
		case perdure.TurnSealed:
			detail = f.Reason
		case perdure.TurnFailed:
			detail = f.Code
		}
		text += string(e.Type()) + "(" + detail + ") "
	}
	return text
}

func (r *rig) rest() {
	r.t.Helper()
	if err := r.eng.Sessions().WaitIdle(r.ctx, r.id); err != nil {
		r.t.Errorf("WaitIdle: %v; journal:\n%s", err, r.story())
	}
}

// once judges the first transaction that matches, and lets all others pass.
func once(what fate, match func([]perdure.Fact) bool) (func([]perdure.Fact) fate, chan struct{}) {
	var mu sync.Mutex
	hit := make(chan struct{})
	done := false
	return func(facts []perdure.Fact) fate {
		mu.Lock()
		defer mu.Unlock()
		if done || !match(facts) {
			return commits
		}
		done = true
		close(hit)
		return what
	}, hit
}
