package linearizability

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// tries is the maximum number of histories until a sabotage must be found.
const tries = 20

// TestR17FindsSabotage gives each model stores with bugs, and wants a history that a correct store
// cannot produce.
func TestR17FindsSabotage(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name string
		game game
		lie  func() lies
	}{
		{"calls_lost_commit", calls(), loseCommits},
		{"calls_settle_without_token", calls(), func() lies { return lies{tx: func(tx store.Tx) store.Tx { return settlesForAll{tx} }} }},
		{"calls_two_take_over", calls(), func() lies { return lies{tx: func(tx store.Tx) store.Tx { return takesTwice{tx} }} }},
		{"calls_stale_read", calls(), staleCalls},
		{"files_lost_commit", files(), loseCommits},
		{"files_lost_compare_and_set", files(), staleFiles(true)},
		{"files_stale_read", files(), staleFiles(false)},
		{"tasks_lost_commit", tasks(), loseCommits},
		{"tasks_two_ends", tasks(), func() lies { return lies{tx: func(tx store.Tx) store.Tx { return endsTwice{tx} }} }},
		{"tasks_no_fence", tasks(), func() lies { return lies{tx: func(tx store.Tx) store.Tx { return unfenced{tx} }} }},
		{"spawns_lost_commit", spawns(), loseCommits},
		{"spawns_two_children", spawns(), func() lies { return lies{tx: func(tx store.Tx) store.Tx { return hasTwins{tx} }} }},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(tries) {
				l := s.lie()
				on := inMemory(seed)
				on.bend = func(st store.Store) store.Store { return &liar{Store: st, lies: l} }
				h := s.game.record(t, on, seed, operations)
				switch answer, picture := judge(t, s.game, h); answer {
				case porcupine.Illegal:
					if drawn, err := os.Stat(picture); err != nil || drawn.Size() == 0 {
						t.Errorf("no picture at %s: %v", picture, err)
					}
					t.Logf("found in history %d of %d operations; its picture: %s", seed+1, len(h.operations), picture)
					return
				case porcupine.Unknown:
					t.Fatalf("history %d is in doubt after %v", seed+1, patience)
				}
			}
			t.Errorf("not found in %d histories", tries)
		})
	}
}

// lies are the bugs of a store. nil: no bug there.
type lies struct {
	commits func() bool // whether the next transaction is kept
	tx      func(store.Tx) store.Tx
	reader  func(store.Reader) store.Reader
}

// liar is a store with bugs.
type liar struct {
	store.Store
	lies lies
}

// forgotten aborts a transaction that is reported as committed.
type forgotten struct{ error }

func (l *liar) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := l.Store.InTx(ctx, func(tx store.Tx) error {
		if l.lies.tx != nil {
			tx = l.lies.tx(tx)
		}
		if err := fn(tx); err != nil {
			return err
		}
		if l.lies.commits != nil && !l.lies.commits() {
			return forgotten{}
		}
		return nil
	})
	if _, ok := err.(forgotten); ok {
		return nil
	}
	return err
}

func (l *liar) View(ctx context.Context, fn func(store.Reader) error) error {
	return l.Store.View(ctx, func(r store.Reader) error {
		if l.lies.reader != nil {
			r = l.lies.reader(r)
		}
		return fn(r)
	})
}

// loseCommits acknowledges every twentieth transaction and drops it.
func loseCommits() lies {
	var n atomic.Int64
	return lies{commits: func() bool { return n.Add(1)%20 != 0 }}
}

// settlesForAll reports success to every writer that settles, owner or not.
type settlesForAll struct{ store.Tx }

// settlesForAllCalls overrides a part of one noun.
type settlesForAllCalls struct {
	store.Calls
	settlesForAll
}

func (s settlesForAll) Calls() store.Calls { return settlesForAllCalls{s.Tx.Calls(), s} }

// settlesForAllReader reads what the transaction shows.
type settlesForAllReader struct {
	store.Reader
	tx settlesForAll
}

func (s settlesForAll) Reader() store.Reader { return settlesForAllReader{s.Tx.Reader(), s} }

func (r settlesForAllReader) Calls() store.CallReader { return r.tx.Calls() }

func (s settlesForAllCalls) Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState, result perdure.ToolResult) error {
	if row, err := s.Calls.Get(key); err == nil && row.State == perdure.CallRunning {
		token = row.Token
	}
	return s.Calls.Settle(key, token, state, result)
}

// takesTwice lets a second worker take over what a first one has taken over.
type takesTwice struct{ store.Tx }

// takesTwiceCalls overrides a part of one noun.
type takesTwiceCalls struct {
	store.Calls
	takesTwice
}

func (s takesTwice) Calls() store.Calls { return takesTwiceCalls{s.Tx.Calls(), s} }

// takesTwiceReader reads what the transaction shows.
type takesTwiceReader struct {
	store.Reader
	tx takesTwice
}

func (s takesTwice) Reader() store.Reader { return takesTwiceReader{s.Tx.Reader(), s} }

func (r takesTwiceReader) Calls() store.CallReader { return r.tx.Calls() }

func (s takesTwiceCalls) TakeOver(old, next perdure.Call) error {
	if row, err := s.Calls.Get(old.Key); err == nil {
		old.Token = row.Token
	}
	return s.Calls.TakeOver(old, next)
}

// endsTwice lets the last writer of a task's end win.
type endsTwice struct{ store.Tx }

// endsTwiceTasks overrides a part of one noun.
type endsTwiceTasks struct {
	store.Tasks
	endsTwice
}

func (s endsTwice) Tasks() store.Tasks { return endsTwiceTasks{s.Tx.Tasks(), s} }

// endsTwiceReader reads what the transaction shows.
type endsTwiceReader struct {
	store.Reader
	tx endsTwice
}

func (s endsTwice) Reader() store.Reader { return endsTwiceReader{s.Tx.Reader(), s} }

func (r endsTwiceReader) Tasks() store.TaskReader { return r.tx.Tasks() }

func (s endsTwiceTasks) Update(session perdure.SessionID, id perdure.TaskID, u perdure.TaskUpdate) (perdure.TaskChange, error) {
	change, err := s.Tasks.Update(session, id, u)
	if change.Answer == perdure.UpdateSettled {
		change.Answer, change.Ended = perdure.Updated, true
	}
	return change, err
}

// unfenced omits the fence of the attempt.
type unfenced struct{ store.Tx }

// unfencedTasks overrides a part of one noun.
type unfencedTasks struct {
	store.Tasks
	unfenced
}

func (s unfenced) Tasks() store.Tasks { return unfencedTasks{s.Tx.Tasks(), s} }

// unfencedReader reads what the transaction shows.
type unfencedReader struct {
	store.Reader
	tx unfenced
}

func (s unfenced) Reader() store.Reader { return unfencedReader{s.Tx.Reader(), s} }

func (r unfencedReader) Tasks() store.TaskReader { return r.tx.Tasks() }

func (s unfencedTasks) Update(session perdure.SessionID, id perdure.TaskID, u perdure.TaskUpdate) (perdure.TaskChange, error) {
	if found, err := s.Tasks.Get(session, id); err == nil {
		u.Attempt = found.Attempt
	}
	return s.Tasks.Update(session, id, u)
}

// hasTwins reports success to every registration of a child, even of a second one.
type hasTwins struct{ store.Tx }

// hasTwinsSpawns overrides a part of one noun.
type hasTwinsSpawns struct {
	store.Spawns
	hasTwins
}

func (s hasTwins) Spawns() store.Spawns { return hasTwinsSpawns{s.Tx.Spawns(), s} }

// hasTwinsReader reads what the transaction shows.
type hasTwinsReader struct {
	store.Reader
	tx hasTwins
}

func (s hasTwins) Reader() store.Reader { return hasTwinsReader{s.Tx.Reader(), s} }

func (r hasTwinsReader) Spawns() store.SpawnReader { return r.tx.Spawns() }

func (s hasTwinsSpawns) RegisterChild(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error {
	if row, err := s.Spawns.Get(key); err == nil && row.State == store.SpawnRunning {
		return nil
	}
	return s.Spawns.RegisterChild(key, token, child)
}

// memo returns the previous value for every fourth read. It is safe for concurrent use.
type memo[K comparable, V any] struct {
	mu   sync.Mutex
	n    int
	seen map[K]V
}

func (m *memo[K, V]) look(key K, fresh V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	old, there := m.seen[key]
	m.seen[key] = fresh
	if there && m.n%4 == 0 {
		return old
	}
	return fresh
}

// staleCalls returns stale reads of calls.
func staleCalls() lies {
	m := &memo[perdure.CallKey, perdure.Call]{seen: map[perdure.CallKey]perdure.Call{}}
	return lies{reader: func(r store.Reader) store.Reader { return staleCallReader{r, m} }}
}

type staleCallReader struct {
	store.Reader
	m *memo[perdure.CallKey, perdure.Call]
}

// staleCallReaderCalls overrides a part of one noun.
type staleCallReaderCalls struct {
	store.CallReader
	staleCallReader
}

func (s staleCallReader) Calls() store.CallReader { return staleCallReaderCalls{s.Reader.Calls(), s} }

func (s staleCallReaderCalls) Get(key perdure.CallKey) (perdure.Call, error) {
	row, err := s.CallReader.Get(key)
	if err != nil {
		return row, err
	}
	return s.m.look(key, row), nil
}

// staleFiles returns stale reads of files: in the transactions that compare them, or in views.
func staleFiles(compared bool) func() lies {
	return func() lies {
		m := &memo[string, store.File]{seen: map[string]store.File{}}
		if compared {
			return lies{tx: func(tx store.Tx) store.Tx { return staleFileTx{tx, m} }}
		}
		return lies{reader: func(r store.Reader) store.Reader { return staleFileReader{r, m} }}
	}
}

type staleFileTx struct {
	store.Tx
	m *memo[string, store.File]
}

// staleFileTxFiles overrides a part of one noun.
type staleFileTxFiles struct {
	store.Files
	staleFileTx
}

func (s staleFileTx) Files() store.Files { return staleFileTxFiles{s.Tx.Files(), s} }

// staleFileTxReader reads what the transaction shows.
type staleFileTxReader struct {
	store.Reader
	tx staleFileTx
}

func (s staleFileTx) Reader() store.Reader { return staleFileTxReader{s.Tx.Reader(), s} }

func (r staleFileTxReader) Files() store.FileReader { return r.tx.Files() }

func (s staleFileTxFiles) Get(session perdure.SessionID, path string) (store.File, error) {
	f, err := s.Files.Get(session, path)
	if err != nil {
		return f, err
	}
	return s.m.look(path, f), nil
}

type staleFileReader struct {
	store.Reader
	m *memo[string, store.File]
}

// staleFileReaderFiles overrides a part of one noun.
type staleFileReaderFiles struct {
	store.FileReader
	staleFileReader
}

func (s staleFileReader) Files() store.FileReader { return staleFileReaderFiles{s.Reader.Files(), s} }

func (s staleFileReaderFiles) Get(session perdure.SessionID, path string) (store.File, error) {
	f, err := s.FileReader.Get(session, path)
	if err != nil {
		return f, err
	}
	return s.m.look(path, f), nil
}
