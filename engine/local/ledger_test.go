package local_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// bookkeeper is a store that records, for each committed transaction, the calls that it settled and
// those whose end event it appended.
type bookkeeper struct {
	store.Store
	mu      sync.Mutex
	entries []entry // guarded by mu; only non-empty ones
}

// entry lists the ends in one transaction.
type entry struct{ settled, told []string }

type bookkeeperTx struct {
	store.Tx
	entry
}

// bookkeeperTxCalls overrides a part of one noun.
type bookkeeperTxCalls struct {
	store.Calls
	*bookkeeperTx
}

func (b *bookkeeperTx) Calls() store.Calls { return bookkeeperTxCalls{b.Tx.Calls(), b} }

// bookkeeperTxJournal overrides a part of one noun.
type bookkeeperTxJournal struct {
	store.Journal
	*bookkeeperTx
}

func (b *bookkeeperTx) Journal() store.Journal { return bookkeeperTxJournal{b.Tx.Journal(), b} }

// bookkeeperTxReader reads what the transaction shows.
type bookkeeperTxReader struct {
	store.Reader
	tx *bookkeeperTx
}

func (b *bookkeeperTx) Reader() store.Reader { return bookkeeperTxReader{b.Tx.Reader(), b} }

func (r bookkeeperTxReader) Calls() store.CallReader { return r.tx.Calls() }

func (r bookkeeperTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (b *bookkeeper) InTx(ctx context.Context, fn func(store.Tx) error) error {
	var last entry
	err := b.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &bookkeeperTx{Tx: tx}
		err := fn(spy)
		last = spy.entry
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && len(last.settled)+len(last.told) > 0 {
		b.entries = append(b.entries, last)
	}
	return err
}

func (b bookkeeperTxCalls) Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState, result perdure.ToolResult) error {
	err := b.Calls.Settle(key, token, state, result)
	if err == nil {
		b.settled = append(b.settled, string(key.Call))
	}
	return err
}

func (b bookkeeperTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		if f, ok := e.Fact.(perdure.ToolCompleted); ok {
			b.told = append(b.told, string(f.CallID))
		}
	}
	return b.Journal.Append(id, events)
}

// TestSettleAndEventOneCommit inspects every transaction of calls that end well, badly, late and
// with their worker: the row of a call and the event of its end are always in one transaction
// (LG7).
func TestSettleAndEventOneCommit(t *testing.T) {
	t.Parallel()
	st := &bookkeeper{Store: memory.New(memory.Config{})}
	w := newWorld(t, enginetest.Setup{MaxRuns: 2, Script: `
steps:
  - calls:
      - {name: echo, args: {text: a}}
      - {name: charge, args: {text: a}}
      - {name: fail, args: {}}
      - {name: break, args: {}}
      - {name: panic, args: {}}
      - {name: hold_silent, args: {text: a}}
  - calls: [{name: hold_charge, args: {text: a}}, {name: hold_note, args: {text: a}}]
  - {text: done, repeat: true}
`}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	eng := w.Start(t)
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = eng.Send(t.Context(), s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Entered(t, "hold_charge", 1)
	w.Entered(t, "hold_note", 1)
	w.Kill(t)
	eng = w.Start(t)
	w.Entered(t, "hold_note", 2)
	w.Kill(t)
	eng = w.Start(t) // it has been started often enough to be abandoned
	if err := eng.Sessions().WaitIdle(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	w.Kill(t)

	st.mu.Lock()
	defer st.mu.Unlock()
	ends := 0
	for _, e := range st.entries {
		slices.Sort(e.settled)
		slices.Sort(e.told)
		if ends += len(e.settled); !slices.Equal(e.settled, e.told) {
			t.Errorf("one transaction settled %q and recorded the end of %q", e.settled, e.told)
		}
	}
	if ends != 8 {
		t.Errorf("%d ends, want 8", ends)
	}
}

// rowOf reads a session's single row of the ledger.
func rowOf(t *testing.T, st store.Store, id perdure.SessionID) perdure.Call {
	t.Helper()
	var rows []perdure.Call
	err := st.View(t.Context(), func(r store.Reader) (err error) {
		rows, err = r.Calls().List(store.CallFilter{Session: id})
		return err
	})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows[0]
}

// TestTakeoverFreshToken runs a call in three processes: each has a token of its own, the token of
// an earlier process cannot write, and the last one settles (LG8, LG10).
func TestTakeoverFreshToken(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hold", "hold_note"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memory.New(memory.Config{})
			script := "steps: [{calls: [{name: " + name + ", args: {text: a}}]}, {text: done, repeat: true}]"
			w := newWorld(t, enginetest.Setup{Script: script, MaxRuns: 9}, func(*testing.T) store.Store { return st }, func(store.Store) {})
			eng := w.Start(t)
			s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
			if err == nil {
				_, err = eng.Send(t.Context(), s.ID, perdure.Text("go"))
			}
			if err != nil {
				t.Fatal(err)
			}
			var lives []perdure.Call
			for n := range 3 {
				if n > 0 {
					w.Kill(t)
					eng = w.Start(t)
				}
				w.Entered(t, name, n+1)
				lives = append(lives, rowOf(t, st, s.ID))
			}

			for n, life := range lives {
				if life.State != perdure.CallRunning || life.Executions != n+1 || life.Token == "" {
					t.Errorf("process %d: %+v", n+1, life)
				}
				if n == 2 {
					break
				}
				if life.Token == lives[n+1].Token || life.Worker == lives[n+1].Worker {
					t.Errorf("processes %d and %d have tokens %q and %q of workers %s and %s", n+1, n+2, life.Token, lives[n+1].Token, life.Worker, lives[n+1].Worker)
				}
				late := settleLate(t, st, life)
				if now := rowOf(t, st, s.ID); !errors.Is(late, perdure.Lost) || now.State != perdure.CallRunning {
					t.Errorf("process %d settled late: %v, the row is %+v", n+1, late, now)
				}
			}
			w.Release(name)
			if err := eng.Sessions().WaitIdle(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			if row := rowOf(t, st, s.ID); row.State != perdure.CallSettled || row.Executions != 3 || row.Token != lives[2].Token || row.Result.IsError() {
				t.Errorf("it ended as %+v", row)
			}
			if keys := slices.Compact(w.Effects(name)); name == "hold_note" && (len(keys) != 1 || keys[0] != lives[0].Key.IdempotencyKey()) {
				t.Errorf("effects under %q", keys)
			}
			w.Kill(t)
		})
	}
}

// settleLate settles a call as the process with this row would, and returns the ledger's error.
func settleLate(t *testing.T, st store.Store, row perdure.Call) error {
	t.Helper()
	return st.InTx(t.Context(), func(tx store.Tx) error {
		return tx.Calls().Settle(row.Key, row.Token, perdure.CallSettled, perdure.ToolResult{CallID: row.Key.Call, Result: []byte(`"late"`)})
	})
}

// outage is a store that goes down at the first claim, and recovers after a number of refusals.
type outage struct {
	method string // that is refused; empty: all of them
	times  int

	mu      sync.Mutex
	refused int // guarded by mu
}

func (o *outage) at(p faulty.Point) faulty.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused == o.times || o.refused == 0 && p.Method != "Calls.Claim" || o.method != "" && o.refused > 0 && p.Method != o.method {
		return faulty.Fault{}
	}
	o.refused++
	return faulty.Fault{Act: faulty.Fail}
}

// over reports whether the store has recovered.
func (o *outage) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused == o.times
}

// TestAtMostOnceFailsClosed makes the ledger unavailable while a payment is claimed: nothing is
// paid without a durable running row, and once the ledger is back the call runs, once (LG4, LG5).
func TestAtMostOnceFailsClosed(t *testing.T) {
	t.Parallel()
	claims := func(f []perdure.Fact) bool { return has(f, any1[perdure.ToolStarted]) }
	for name, c := range map[string]struct {
		method string // that the store refuses so many times; empty: all
		times  int
		what   fate // of the first transaction that claims
	}{
		"every claim is refused":       {method: "Calls.Claim", times: 12},
		"every transaction is refused": {method: "InTx", times: 12},
		"nothing can be asked":         {times: 25},
		"the claim is not committed":   {what: aborts},
		"the answer is lost":           {what: forgets},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ledger, down := memory.New(memory.Config{}), &outage{method: c.method, times: c.times}
				paid := 0
				pay := tool.New(tool.Spec{Name: "pay", Description: "x", Class: perdure.AtMostOnce}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
					paid++
					row := rowOf(t, ledger, env.Call.Session)
					if row.State != perdure.CallRunning || row.Executions != 1 || row.Key.Call != env.Call.ID || !down.over() {
						t.Errorf("it is run over the row %+v; the store is back: %t", row, down.over())
					}
					return answer{}, nil
				})
				// Without TN1, which seals a turn whose session can be acquired three times while
				// its claim is refused.
				cfg := local.Config{Store: faulty.New(ledger, faulty.Plan{At: down.at}), Limits: local.Limits{NoProgress: -1}}
				a := openShop(t, "steps: [{calls: [{name: pay, args: {}}]}, {text: done, repeat: true}]", cfg, pay)
				judge, hit := once(c.what, claims)
				if c.what != commits {
					a.st.set(judge)
				}
				a.run()
				a.session()
				a.say("go")
				// it reads the store, which is down
				for err := a.eng.Sessions().WaitIdle(a.ctx, a.id); err != nil; err = a.eng.Sessions().WaitIdle(a.ctx, a.id) {
					if !errors.Is(err, perdure.Unavailable) {
						t.Fatal(err)
					}
					<-time.After(time.Second)
				}

				if c.what != commits {
					<-hit
				}
				if row := rowOf(t, ledger, a.id); paid != 1 || row.State != perdure.CallSettled || row.Executions != 1 || row.Result.IsError() || !down.over() {
					t.Errorf("paid %d times, the row is %+v, the store is back: %t", paid, row, down.over())
				}
				a.end()
			})
		})
	}
}

// TestDeterminismViolationHasExit finds a row with other content under the id of a call: the call
// gets an error, its sibling runs, the turn fails once, and the session remains usable. The log has
// both fingerprints, and no arguments (LG14).
func TestDeterminismViolationHasExit(t *testing.T) {
	t.Parallel()
	var log lockedText
	paid := make(chan string, 9)
	pay := tool.New(tool.Spec{Name: "pay", Description: "x", Class: perdure.AtMostOnce}, func(_ context.Context, in words, _ tool.Env) (answer, error) {
		paid <- in.Text
		return answer{}, nil
	})
	a := openShop(t, `
steps:
  - calls: [{name: pay, id: call_again, args: {text: new words}}, {name: pay, id: call_sibling, args: {text: sibling}}]
  - {text: it goes on, repeat: true}
`, local.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, pay)
	a.run()
	a.session()
	stored := perdure.Call{
		Key: perdure.CallKey{Session: a.id, Call: "call_again"}, Tool: "pay", Args: []byte(`{"text":"old words"}`), Fingerprint: "sha256:stored",
		Class: perdure.AtMostOnce, Token: "token", Worker: "worker_dead",
	}
	err := a.st.InTx(a.ctx, func(tx store.Tx) error {
		_, _, err := tx.Calls().Claim(stored, func(perdure.WorkerID) bool { return false })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.say("go")
	a.rest()
	a.say("go on")
	a.rest()
	events, err := a.eng.Events(a.ctx, a.id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.end()

	var failed []perdure.TurnFailed
	var current string
	asked, ended := 0, 0
	for _, e := range events {
		switch f := e.Fact.(type) {
		case perdure.ReasonStarted:
			asked++
		case perdure.ActStarted:
			current = f.Calls[0].Fingerprint
		case perdure.TurnFailed:
			failed = append(failed, f)
		case perdure.TurnCompleted:
			ended++
		case perdure.ToolCompleted:
			if f.CallID == "call_again" && (f.Result.ErrorKind != perdure.ErrorDeterminism || f.Status != perdure.StatusError) {
				t.Errorf("the call was answered with %+v", f)
			}
		}
	}
	if len(failed) != 1 || failed[0].Code != perdure.CodeDeterminism || failed[0].Retryable || asked != 2 || ended != 1 {
		t.Errorf("%+v; the model was asked %d times, and %d turns came to their end", failed, asked, ended)
	}
	if len(paid) != 1 || <-paid != "sibling" {
		t.Error("not the sibling, and it alone, was run")
	}
	if text := log.String(); current == "" || !strings.Contains(text, current) || !strings.Contains(text, "sha256:stored") || strings.Contains(text, "words") {
		t.Errorf("the fingerprint is %s; the log says %s", current, text)
	}
}

// TestStoredResultKeepsRaw: the row of a call has the result as the model received it, within its
// limit, and the file beside it has the full result, within its own (TL16, LG16). Both exist after
// a restart.
func TestStoredResultKeepsRaw(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", tool.ResultLimit)
	for name, c := range map[string]struct {
		gives tool.Result
		row   string // of the ledger: how it begins
		file  string
	}{
		"raw beside a result": {tool.Success(answer{"n": "1"}).WithRaw("the whole"), `{"n":"1"}`, "the whole"},
		"raw of an error":     {tool.Error("no").WithRaw("the whole"), `{"error":"no"`, "the whole"},
		"a long result":       {tool.Success(long), `{"truncated":true,`, `"` + long + `"`},
		"raw beyond its size": {
			tool.Success(answer{"n": "1"}).WithRaw(strings.Repeat("x", tool.RawOutputLimit+1)), `{"n":"1"}`, strings.Repeat("x", tool.RawOutputLimit),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memory.New(memory.Config{})
			report := &resultTool{spec: tool.Spec{Name: "report", Description: "x", Class: perdure.Pure}, run: func(context.Context, tool.Env) tool.Result { return c.gives }}
			const script = "steps: [{calls: [{name: report, args: {}}]}, {text: done, repeat: true}]"
			a := openShop(t, script, local.Config{Store: st}, report)
			a.run()
			a.session()
			a.say("go")
			a.rest()
			a.end()
			b := openShop(t, script, local.Config{Store: st}, report)
			b.id = a.id
			b.run()
			b.say("go on")
			b.rest()
			events, err := b.eng.Events(b.ctx, b.id, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			b.end()

			row := rowOf(t, st, a.id)
			got, path := string(row.Result.Result), tool.OutputPath(row.Key.Call)
			if !strings.HasPrefix(got, c.row) || len(got) > tool.ResultLimit || strings.Contains(c.row, "truncated") != strings.Contains(got, path) {
				t.Errorf("the row has %d bytes: %.200s", len(got), got)
			}
			for _, e := range events {
				if f, ok := e.Fact.(perdure.ToolCompleted); ok && string(f.Result.Result) != got {
					t.Errorf("the journal has %d bytes, the row %d", len(f.Result.Result), len(got))
				}
			}
			var file store.File
			err = st.View(t.Context(), func(r store.Reader) (err error) {
				file, err = r.Files().Get(a.id, path)
				return err
			})
			if err != nil || string(file.Content) != c.file {
				t.Errorf("the file has %d bytes, %v, want %d", len(file.Content), err, len(c.file))
			}
		})
	}
}
