package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store"
)

// The size of histories. LINEAR_HISTORIES and LINEAR_OPERATIONS set others; LINEAR_SEED repeats a
// failed one.
const (
	histories  = 16  // of each model, a quarter of them on disk and the others in memory
	operations = 300 // in each
	clients    = 8
	perKey     = 30               // operations on one key: the search time grows fast with it
	patience   = 60 * time.Second // for one history; longer is a failure, not a doubt
)

// request is one operation of a client.
type request interface {
	// key is its object; operations on different keys are independent.
	key() int
	// reads reports whether it changes nothing: a failed read is left out of the history.
	reads() bool
}

// inDoubt is the output of an operation whose result was lost.
type inDoubt struct{}

// game is the set of operations of clients on a store, and their model.
type game struct {
	name  string
	model porcupine.Model
	// start creates what the clients of one history share, in a session of their own.
	start func(session perdure.SessionID, keys int) play
}

// play is one history's game.
type play interface {
	// next draws an operation of a client on a key. client is from 0; only that client calls it.
	next(client, key int, chance *rand.Rand, word string) request
	// do executes it. An error means that the outcome is in doubt.
	do(ctx context.Context, st store.Store, client int, r request) (any, error)
}

// history is the outcome of one play.
type history struct {
	seed       uint64
	operations []porcupine.Operation
	doubts     int
	beside     int // operations that overlap with another one
	deaths     int64
}

// record plays one history on the ground.
func (g game) record(t *testing.T, on *ground, seed uint64, n int) history {
	t.Helper()
	session := core.NewID[perdure.SessionID]()
	for { // until it succeeds, on a ground with faults
		err := on.store(t).InTx(t.Context(), func(tx store.Tx) error {
			return tx.Sessions().Create(store.Session{ID: session, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
		})
		if err == nil || errors.Is(err, perdure.Conflict) {
			break
		}
	}
	keys := max(1, n/perKey)
	p := g.start(session, keys)
	var clock, drawn atomic.Int64
	var mu sync.Mutex
	h := history{seed: seed}
	before := on.deaths.Load()
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			chance := rand.New(rand.NewPCG(seed, uint64(client)))
			shown := client // in a picture; after an operation in doubt the client continues under another number
			for {
				turn := int(drawn.Add(1)) - 1
				if turn >= n {
					return
				}
				// All clients use one key and its neighbor, so that they conflict.
				key := min(keys-1, turn/perKey+chance.IntN(2))
				r := p.next(client, key, chance, fmt.Sprintf("w%d", turn))
				op := porcupine.Operation{ClientId: shown, Input: r, Call: clock.Add(1)}
				runtime.Gosched() // so that others run concurrently
				out, err := p.do(t.Context(), on.store(t), client, r)
				runtime.Gosched()
				op.Output, op.Return = out, clock.Add(1)
				if err != nil && r.reads() {
					continue
				}
				if err != nil {
					op.Output, op.Return = inDoubt{}, math.MaxInt64
					shown += clients
				}
				mu.Lock()
				h.operations = append(h.operations, op)
				if err != nil {
					h.doubts++
				} else if op.Return > op.Call+1 {
					h.beside++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	h.deaths = on.deaths.Load() - before
	return h
}

// judge reports whether a history is linearizable; if not, it returns the path of a picture of it.
func judge(t *testing.T, g game, h history) (porcupine.CheckResult, string) {
	t.Helper()
	answer, why := porcupine.CheckOperationsVerbose(g.model, h.operations, patience)
	if answer == porcupine.Ok {
		return answer, ""
	}
	folder := os.Getenv("ARTIFACTS") // where pictures survive the test
	if folder == "" {
		folder = t.TempDir()
	}
	picture := filepath.Join(folder, fmt.Sprintf("%s-%d.html", g.name, h.seed))
	if err := porcupine.VisualizePath(g.model, why, picture); err != nil {
		t.Errorf("draw %s: %v", picture, err)
	}
	return answer, picture
}

// partition splits a history by key.
func partition(all []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	at := map[int]int{}
	for _, op := range all {
		key := op.Input.(request).key()
		if _, there := at[key]; !there {
			at[key] = len(parts)
			parts = append(parts, nil)
		}
		parts[at[key]] = append(parts[at[key]], op)
	}
	return parts
}

// describe formats an operation for a picture.
func describe(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) }

// check plays many histories of a game and wants all of them linearizable, none in doubt (R17).
func check(t *testing.T, g game, all, operations int) {
	t.Helper()
	for name, part := range map[string]struct {
		open func(*testing.T, uint64) *ground
		n    int
	}{
		"memory": {func(_ *testing.T, seed uint64) *ground { return inMemory(seed) }, all - all/4},
		"sqlite": {onDisk, max(1, all/4)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := int(time.Now().UnixNano())
			seed := uint64(soak.Count(t, "LINEAR_SEED", now, now))
			on := part.open(t, seed)
			var sum history
			played := 0
			// Faults are drawn by chance: a few histories may have none of a kind, many do not.
			for ; played < part.n || (sum.doubts == 0 || sum.deaths == 0) && played < 20*part.n; played++ {
				i := uint64(played)
				h := g.record(t, on, seed+i, operations)
				if answer, picture := judge(t, g, h); answer != porcupine.Ok {
					t.Fatalf("a history is %s: see %s, and try LINEAR_SEED=%d again", answer, picture, seed+i)
				}
				sum.operations = append(sum.operations, h.operations...)
				sum.doubts += h.doubts
				sum.beside += h.beside
				sum.deaths += h.deaths
			}
			if sum.doubts == 0 || sum.deaths == 0 {
				t.Errorf("nothing went wrong: %d answers lost, %d deaths", sum.doubts, sum.deaths)
			}
			if sum.beside < len(sum.operations)/20 {
				t.Errorf("the clients waited for each other: of %d operations, %d met another one", len(sum.operations), sum.beside)
			}
			for _, yes := range []bool{true, false} {
				if !seen(sum.operations, yes) {
					t.Errorf("of %d operations none was answered with %t", len(sum.operations), yes)
				}
			}
			t.Logf("%d histories, %d operations, %d beside others, %d in doubt, %d deaths", played, len(sum.operations), sum.beside, sum.doubts, sum.deaths)
		})
	}
}

// answered is an output that is a yes or a no.
type answered interface{ yes() bool }

// seen reports whether some operation had this output.
func seen(all []porcupine.Operation, yes bool) bool {
	for _, op := range all {
		if a, ok := op.Output.(answered); ok && a.yes() == yes {
			return true
		}
	}
	return false
}
