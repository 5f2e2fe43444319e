package local_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// keeper is a tool whose calls leave something outside, and the host, which stores something for
// sessions.
type keeper struct {
	mu      sync.Mutex
	cleaned []perdure.CallID
	forgot  []perdure.SessionID
	fails   bool // to remove a session
	keeps   bool // to remove what calls left

	shared bool              // the engines are workers over one store
	stuck  perdure.SessionID // the first cleanup of one of its calls blocks until stay is closed
	stay   chan struct{}     // closed by the test
}

var errKept = errors.New("it cannot be removed now")

func (k *keeper) Spec() tool.Spec {
	return tool.Spec{Name: "keep", Description: "x", Class: perdure.Idempotent}
}

func (k *keeper) Run(context.Context, tool.Call, tool.Env) tool.Result { return tool.Success("kept") }

func (k *keeper) Clean(_ context.Context, call tool.Call) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stuck == call.Session {
		k.stuck = ""
		k.mu.Unlock()
		<-k.stay
		k.mu.Lock()
	}
	if k.keeps {
		return errKept
	}
	k.cleaned = append(k.cleaned, call.ID)
	return nil
}

func (k *keeper) forget(_ context.Context, id perdure.SessionID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fails {
		return errKept
	}
	k.forgot = append(k.forgot, id)
	return nil
}

// fail sets whether the host fails to remove a session, and the tool to clean up.
func (k *keeper) fail(fails, keeps bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails, k.keeps = fails, keeps
}

// open creates an engine over a store that runs until the test ends or stop is called.
func (k *keeper) open(t *testing.T, st store.Store) (eng *local.Engine, stop func()) {
	t.Helper()
	m, err := scripted.Parse("keep", []byte("steps:\n  - calls: [{name: keep, args: {}}, {name: keep, args: {}}]\n  - {text: done, repeat: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err = local.Open(t.Context(), local.Config{Store: st, Model: m, Tools: tool.NewRegistry(k), Storage: local.Storage{Forget: k.forget}, Timing: local.Timing{Drain: -1}, Workers: local.Workers{Shared: k.shared}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return eng, stop
}

// worked starts a session in which two calls ran.
func (k *keeper) worked(t *testing.T, eng *local.Engine) perdure.SessionID {
	t.Helper()
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = eng.Send(t.Context(), s.ID, perdure.Text("go"))
	}
	if err == nil {
		err = eng.Sessions().WaitIdle(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// left wants what remains outside the store: this number of calls, and of sessions.
func (k *keeper) left(t *testing.T, calls int, sessions ...perdure.SessionID) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.cleaned) != calls || !slices.Equal(k.forgot, sessions) {
		t.Errorf("cleaned calls %v and forgot %v, want %d calls and %v", k.cleaned, k.forgot, calls, sessions)
	}
}

// cleanedAll wants at least these calls to be cleaned up, and exactly these sessions to be removed.
func (k *keeper) cleanedAll(t *testing.T, calls []perdure.Call, sessions ...perdure.SessionID) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, call := range calls {
		if !slices.Contains(k.cleaned, call.Key.Call) {
			t.Errorf("call %s is not cleaned up, only %v", call.Key.Call, k.cleaned)
		}
	}
	if !slices.Equal(k.forgot, sessions) {
		t.Errorf("forgot %v, want %v", k.forgot, sessions)
	}
}

// TestDeleteCleansOutside removes what the calls of a session left outside, including foreground
// calls, and what the host stores for it, and nothing of another session.
func TestDeleteCleansOutside(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	st := memory.New(memory.Config{})
	eng, _ := k.open(t, st)
	id := k.worked(t, eng)
	k.worked(t, eng)

	if err := eng.Sessions().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}

	k.left(t, 2, id)
	nothingNoted(t, st)
}

// TestDeleteCleansLater deletes a session whose outside state cannot be removed, as after a crash
// right after the commit:
// the next process removes it.
func TestDeleteCleansLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		st := memory.New(memory.Config{})
		eng, stop := k.open(t, st)
		id := k.worked(t, eng)
		k.fail(true, true)
		if err := eng.Sessions().Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		k.left(t, 0)
		stop()

		k.fail(false, false)
		next, _ := k.open(t, st)
		other := k.worked(t, next)
		if err := next.Sessions().Delete(t.Context(), other); err != nil {
			t.Fatal(err)
		}

		synctest.Wait() // for the pass of retention at the start
		nothingNoted(t, st)
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.cleaned) != 4 || !slices.Contains(k.forgot, id) || !slices.Contains(k.forgot, other) {
			t.Errorf("cleaned %v and forgot %v, want the calls of both and both sessions", k.cleaned, k.forgot)
		}
	})
}

// TestTwoClean has one worker clean up after a deleted session while another deletes one, and a
// third starts: none of them waits, and none touches what another one is cleaning up.
func TestTwoClean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{shared: true, stay: make(chan struct{})}
		st := memory.New(memory.Config{})
		one, _ := k.open(t, st)
		two, _ := k.open(t, st)
		slow, quick := k.worked(t, one), k.worked(t, two)
		var file bytes.Buffer
		if err := two.Sessions().Export(t.Context(), slow, &file); err != nil {
			t.Fatal(err)
		}
		k.mu.Lock()
		k.stuck = slow
		k.mu.Unlock()
		done := make(chan error, 1)
		go func() { done <- one.Sessions().Delete(t.Context(), slow) }()
		synctest.Wait()

		calls, err := two.Calls().List(t.Context(), quick)
		if err != nil || len(calls) != 2 {
			t.Fatalf("%d calls, %v", len(calls), err)
		}
		begun := time.Now()
		if err := two.Sessions().Delete(t.Context(), quick); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("a deletion waited %s for another one", waited)
		}
		// and perhaps one more: a pass may have started with the rest of the other session
		k.cleanedAll(t, calls, quick)
		k.open(t, st) // its pass finds the rest
		synctest.Wait()
		k.left(t, 3, quick)
		if _, err := two.Sessions().Import(t.Context(), bytes.NewReader(file.Bytes()), engine.Import{}); !errors.Is(err, perdure.Unavailable) {
			t.Errorf("import of what is still being removed: got %v, want unavailable", err)
		}

		close(k.stay)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // another worker's pass may have had the last of it
		k.left(t, 4, quick, slow)
		nothingNoted(t, st)
	})
}

// TestACleanerDies has a worker die while it cleans up: another one does it about a minute later,
// and not with the pass of the next hour. Later results of the first one change nothing.
func TestACleanerDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{shared: true, stay: make(chan struct{})}
		st := memory.New(memory.Config{})
		one, _ := k.open(t, st)
		id := k.worked(t, one)
		k.mu.Lock()
		k.stuck = id
		k.mu.Unlock()
		done := make(chan error, 1)
		go func() { done <- one.Sessions().Delete(t.Context(), id) }()
		synctest.Wait()

		k.open(t, st)
		pass(59 * time.Second)
		k.left(t, 1) // the other call's
		pass(10 * time.Second)
		k.left(t, 2, id)
		nothingNoted(t, st)

		close(k.stay)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		k.left(t, 3, id)
		nothingNoted(t, st)
	})
}

// lockOrder is a store that records the order in which transactions lock sessions and cleanup
// notes.
type lockOrder struct {
	store.Store
	last []perdure.SessionID // of the last transaction; each as it came first
}

type orderedTx struct {
	store.Tx
	by *lockOrder
}

// orderedTxSessions overrides a part of one noun.
type orderedTxSessions struct {
	store.Sessions
	orderedTx
}

func (tx orderedTx) Sessions() store.Sessions { return orderedTxSessions{tx.Tx.Sessions(), tx} }

// orderedTxJournal overrides a part of one noun.
type orderedTxJournal struct {
	store.Journal
	orderedTx
}

func (tx orderedTx) Journal() store.Journal { return orderedTxJournal{tx.Tx.Journal(), tx} }

// orderedTxFiles overrides a part of one noun.
type orderedTxFiles struct {
	store.Files
	orderedTx
}

func (tx orderedTx) Files() store.Files { return orderedTxFiles{tx.Tx.Files(), tx} }

// orderedTxReader reads what the transaction shows.
type orderedTxReader struct {
	store.Reader
	tx orderedTx
}

func (tx orderedTx) Reader() store.Reader { return orderedTxReader{tx.Tx.Reader(), tx} }

func (r orderedTxReader) Sessions() store.SessionsView { return r.tx.Sessions() }

func (r orderedTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (r orderedTxReader) Files() store.FileReader { return r.tx.Files() }

func (l *lockOrder) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return l.Store.InTx(ctx, func(tx store.Tx) error {
		l.last = nil
		return fn(orderedTx{tx, l})
	})
}

func (tx orderedTx) lock(id perdure.SessionID) {
	if !slices.Contains(tx.by.last, id) {
		tx.by.last = append(tx.by.last, id)
	}
}

func (tx orderedTxSessions) Get(id perdure.SessionID) (store.Session, error) {
	tx.lock(id)
	return tx.Sessions.Get(id)
}

func (tx orderedTxSessions) List(f store.SessionFilter) ([]store.Session, error) {
	found, err := tx.Sessions.List(f)
	for _, s := range found {
		tx.lock(s.ID)
	}
	return found, err
}

func (tx orderedTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	tx.lock(id)
	return tx.Journal.Append(id, events)
}

func (tx orderedTxFiles) Put(id perdure.SessionID, f store.File) (bool, error) {
	tx.lock(id)
	return tx.Files.Put(id, f)
}

// TestDeleteLocksInOrder has the removal of a tree lock in the same order as the pruning of its
// tasks: the sessions by their ids, and then the notes. In different orders the two could deadlock.
func TestDeleteLocksInOrder(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	st := memory.New(memory.Config{})
	tree := []perdure.SessionID{"session_b", "session_c", "session_a"}
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		for i, id := range tree {
			row := store.Session{ID: id, Status: perdure.SessionStarted, CreatedAt: tx.Now()}
			if i > 0 {
				row.Parent, row.Root = tree[0], tree[0]
			}
			key := perdure.CallKey{Session: id, Call: "call_1"}
			call := perdure.Call{Key: key, Tool: "keep", Class: perdure.Idempotent, Token: "token"}
			if err := tx.Sessions().Create(row); err != nil {
				return err
			}
			if _, _, err := tx.Calls().Claim(call, func(perdure.WorkerID) bool { return true }); err != nil {
				return err
			}
			if err := tx.Calls().Settle(key, "token", perdure.CallSettled, perdure.ToolResult{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	order := &lockOrder{Store: st}
	eng, err := local.Open(t.Context(), local.Config{
		Store: order, Model: obedient{}, Tools: tool.NewRegistry(k), Storage: local.Storage{Forget: k.forget},
	})
	if err != nil {
		t.Fatal(err)
	}
	k.fail(true, true) // so that the removal is the last transaction

	if err := eng.Sessions().Delete(t.Context(), "session_b"); err != nil {
		t.Fatal(err)
	}

	if want := []perdure.SessionID{"session_a", "session_b", "session_c", "pruned_tasks", "removed_sessions"}; !slices.Equal(order.last, want) {
		t.Errorf("locked %v, want %v", order.last, want)
	}
}

// TestImportWaitsForWhatIsLeft imports a session of which something outside is still to be removed,
// of either kind: the import is refused, since the removal would hit the new session, and succeeds
// once it is removed.
func TestImportWaitsForWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ fails, keeps bool }{
		"the host did not forget it":  {fails: true},
		"its calls left something":    {keeps: true},
		"neither could be removed":    {fails: true, keeps: true},
		"everything was removed once": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &keeper{}
			st := memory.New(memory.Config{})
			eng, _ := k.open(t, st)
			id := k.worked(t, eng)
			var file bytes.Buffer
			if err := eng.Sessions().Export(t.Context(), id, &file); err != nil {
				t.Fatal(err)
			}
			k.fail(c.fails, c.keeps)
			if err := eng.Sessions().Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if c.keeps {
				k.left(t, 0) // the host keeps its state until then: it may need to know where the session worked
			}
			if c.fails || c.keeps {
				_, err := eng.Sessions().Import(t.Context(), bytes.NewReader(file.Bytes()), engine.Import{})
				if _, there := eng.Sessions().Get(t.Context(), id); !errors.Is(err, perdure.Unavailable) || !errors.Is(there, perdure.NotFound) {
					t.Fatalf("got %v, and then %v, want unavailable and no session", err, there)
				}
			}
			k.fail(false, false)

			if _, err := eng.Sessions().Import(t.Context(), bytes.NewReader(file.Bytes()), engine.Import{}); err != nil {
				t.Fatal(err)
			}

			k.left(t, 2, id)
			nothingNoted(t, st)
		})
	}
}

// nothingNoted wants no note of outside state to remove.
func nothingNoted(t *testing.T, st store.Store) {
	t.Helper()
	err := st.View(t.Context(), func(r store.Reader) error {
		for _, id := range []perdure.SessionID{"removed_sessions", "pruned_tasks", "note_cleaners"} {
			if notes, err := r.Files().List(id, "/", true); err != nil || len(notes) > 0 {
				t.Errorf("%s: got notes %v, %v, want none", id, notes, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
