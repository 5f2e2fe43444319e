package linearizability

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// The rates of the faults, for each thousand transactions.
const (
	timesOut   = 40
	fails      = 20
	dies       = 3
	diesAfter  = 3
	viewsFail  = 20
	staysAlive = 1000
)

// ground is a store with faults that is reopened after each crash. It is safe for concurrent use.
type ground struct {
	inner func() store.Store // the store that survives
	// makes inner answer another handle of the same store; nil: it survives as it is
	reopen func() error
	bend   func(store.Store) store.Store // a sabotage above the store; nil: none

	deaths atomic.Int64

	mu     sync.Mutex // guards the fields below
	chance *rand.Rand
	handle *faulty.Store
}

// store returns a live handle.
func (g *ground) store(t *testing.T) store.Store {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.handle == nil || g.handle.Dead() {
		if g.handle != nil {
			g.deaths.Add(1)
			if g.reopen != nil {
				if err := g.reopen(); err != nil {
					t.Errorf("open again: %v", err)
				}
			}
		}
		inner := g.inner()
		if g.bend != nil {
			inner = g.bend(inner)
		}
		g.handle = faulty.New(inner, faulty.Plan{At: g.fault})
	}
	return g.handle
}

// fault draws the fault of one call of the store. Calls within a transaction have none: a
// transaction fails as a whole.
func (g *ground) fault(p faulty.Point) faulty.Fault {
	if p.Method != "InTx" && p.Method != "View" {
		return faulty.Fault{}
	}
	g.mu.Lock()
	draw := g.chance.IntN(staysAlive)
	g.mu.Unlock()
	if p.Method == "View" {
		if draw < viewsFail {
			return faulty.Fault{Act: faulty.Fail}
		}
		return faulty.Fault{}
	}
	for _, odds := range []struct {
		act faulty.Act
		n   int
	}{{faulty.DoAndTimeout, timesOut}, {faulty.Fail, fails}, {faulty.Die, dies}, {faulty.DieAfter, diesAfter}} {
		if draw < odds.n {
			return faulty.Fault{Act: odds.act}
		}
		draw -= odds.n
	}
	return faulty.Fault{}
}

// inMemory is a ground over a store in memory.
func inMemory(seed uint64) *ground {
	st := memory.New(memory.Config{})
	return &ground{inner: func() store.Store { return st }, chance: newChance(seed)}
}

// onDisk is a ground over a database, which is closed and reopened after each crash.
func onDisk(t *testing.T, seed uint64) *ground {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "perdure") // where the system has it: a sync costs nothing there
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	open := func() (*sqlite.Store, error) { return sqlite.Open(t.Context(), sqlite.Config{Dir: dir}) }
	st, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return &ground{
		inner: func() store.Store { return patient{st} },
		reopen: func() error {
			if err := st.Close(); err != nil {
				return err
			}
			again, err := open()
			if err == nil {
				st = again
			}
			return err
		},
		chance: newChance(seed),
	}
}

// patient is a store whose transactions are awaited even after a crash. A database returns once ctx
// has ended, while fn may still run, and then the caller must not read what fn writes; but the
// callers here do.
type patient struct{ store.Store }

// InTx waits for the end of fn, even if ctx has ended.
func (p patient) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return p.Store.InTx(context.WithoutCancel(ctx), fn)
}

func newChance(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 17)) }
