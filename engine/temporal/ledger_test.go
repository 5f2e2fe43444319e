//go:build live

package temporal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// ledger is the store of the tests with a real server. It lives in the process of the test, and
// workers in other processes reach it over a socket, so it outlives them.
type ledger struct {
	mu      sync.Mutex
	changed *sync.Cond       // of mu
	rows    map[string]*item // guarded by mu
}

// item is the row of a session or task.
type item struct {
	ID       string
	Task     bool
	Seq      int64 // what was written
	Read     int64 // up to which it was worked on
	Grant    int64 // as stored
	Home     string
	Owner    string // the worker that has it
	Ended    bool
	Canceled bool
	Held     bool     // the work does not end before the test lets it
	Failing  bool     // the host fails with a text that no history may have
	History  []string // a commit each: WORKER/GRANT
	Lost     int      // how often somebody wrote under an old grant
	Homeless bool     // it was worked on although its home did not answer
}

func newLedger() *ledger {
	l := &ledger{rows: map[string]*item{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// change changes rows, and wakes the goroutines that wait for a change.
func (l *ledger) change(f func(rows map[string]*item)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.rows)
	l.changed.Broadcast()
}

// row returns a copy of a row.
func (l *ledger) row(id string) item {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.rows[id]
}

// await waits until a row fulfils a condition, and returns it. A wait in vain ends the test.
func (l *ledger) await(t *testing.T, what, id string, cond func(item) bool) item {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // much longer than any timeout here
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.change(func(map[string]*item) {}) })()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !cond(*l.rows[id]) {
		if ctx.Err() != nil {
			t.Fatalf("waited for %s in vain: %+v", what, *l.rows[id])
		}
		l.changed.Wait()
	}
	return *l.rows[id]
}

// Ask is a question of a worker.
type Ask struct {
	ID, Worker, Home string
	Grant            Grant
}

// Told is the answer.
type Told struct {
	Err     string // the kind of an error
	Grant   int64  // as stored
	Seq     int64
	Home    string
	Present bool
	Wait    bool // the work goes on: ask again
	Ended   bool
}

// Take stores a grant, and with it the owner of the work.
func (l *ledger) Take(a Ask, out *Told) error {
	l.change(func(rows map[string]*item) {
		r := rows[a.ID]
		out.Grant = r.Grant
		switch {
		case r.Failing:
			out.Err = "failing"
		case r.Home != "" && r.Home != a.Home && !a.Grant.HomeGone:
			out.Home = r.Home
		case a.Grant.Number <= r.Grant:
			r.Lost++
			out.Err = string(perdure.Lost)
		default:
			r.Homeless = r.Homeless || r.Home != "" && r.Home != a.Home
			r.Grant, r.Owner = a.Grant.Number, a.Worker
			out.Grant = r.Grant
		}
	})
	return nil
}

// Owner answers whether a worker has the work: then Present is set.
func (l *ledger) Owner(a Ask, out *Told) error {
	out.Present = l.row(a.ID).Owner == a.Worker
	return nil
}

// Work waits until the work may end, and commits its end under the grant. A former
// owner is Lost. It answers after a change, so that a worker can stop in between.
func (l *ledger) Work(a Ask, out *Told) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	r := l.rows[a.ID]
	if r.Held && !r.Canceled && r.Grant == a.Grant.Number {
		l.changed.Wait()
	}
	out.Grant, out.Seq = r.Grant, r.Seq
	switch {
	case r.Grant != a.Grant.Number:
		r.Lost++
		out.Err = string(perdure.Lost)
	case r.Held && !r.Canceled:
		out.Wait = true
	default:
		r.History = append(r.History, fmt.Sprintf("%s/%d", a.Worker, a.Grant.Number))
		r.Read, r.Owner, r.Ended = r.Seq, "", r.Task
	}
	return nil
}

// Leave gives the work back.
func (l *ledger) Leave(a Ask, _ *Told) error {
	l.change(func(rows map[string]*item) {
		if r := rows[a.ID]; r.Grant == a.Grant.Number {
			r.Owner = ""
		}
	})
	return nil
}

// Cancel records that work is to be canceled.
func (l *ledger) Cancel(a Ask, _ *Told) error {
	l.change(func(rows map[string]*item) { rows[a.ID].Canceled = true })
	return nil
}

// Waits lists what waits for a scheduler.
func (l *ledger) Waits(_ Ask, out *Waiting) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.rows {
		switch {
		case r.Owner != "": // its process works on it, or Temporal finds out that it is dead
		case r.Task && !r.Ended:
			out.Runs = append(out.Runs, WaitingRun{ID: perdure.TaskID(r.ID), Grant: r.Grant, Home: r.Home})
		case !r.Task && r.Seq > r.Read:
			out.Sessions = append(out.Sessions, WaitingSession{ID: perdure.SessionID(r.ID), Seq: r.Seq, Grant: r.Grant, Home: r.Home})
		}
	}
	return nil
}

// serve answers workers of other processes, and returns the address.
func (l *ledger) serve(t *testing.T) string {
	t.Helper()
	server := rpc.NewServer()
	if err := server.RegisterName("Ledger", &doors{l}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			go server.ServeConn(conn)
		}
	}()
	return listener.Addr().String()
}

// doors are the methods of a ledger that workers call.
type doors struct{ l *ledger }

func (d *doors) Take(a Ask, out *Told) error     { return d.l.Take(a, out) }
func (d *doors) Work(a Ask, out *Told) error     { return d.l.Work(a, out) }
func (d *doors) Leave(a Ask, out *Told) error    { return d.l.Leave(a, out) }
func (d *doors) Cancel(a Ask, out *Told) error   { return d.l.Cancel(a, out) }
func (d *doors) Waits(a Ask, out *Waiting) error { return d.l.Waits(a, out) }

// ledgerHost is a host over a ledger in another process.
type ledgerHost struct {
	client       *rpc.Client
	worker, home string

	mu      sync.Mutex
	driving map[string]*driving // guarded by mu; what this process works on
}

// driving is one work of this process. A later grant joins it.
type driving struct {
	grant int64 // guarded by ledgerHost.mu; the highest
	done  chan struct{}
	out   Told
	err   error
}

// secretText is in errors and nowhere in a history.
const secretText = "canary-5d1f"

// work takes and does one work. A work that this process does already gets the new grant.
func (h *ledgerHost) work(ctx context.Context, id string, g Grant) (Told, error) {
	ask := Ask{ID: id, Worker: h.worker, Home: h.home, Grant: g}
	h.mu.Lock()
	defer h.mu.Unlock()
	var told Told
	if err := h.call("Take", ask, &told); err != nil || told.Err != "" || told.Home != "" {
		return told, errors.Join(err, kindError(told.Err))
	}
	d := h.driving[id]
	if d == nil {
		d = &driving{done: make(chan struct{})}
		h.driving[id] = d
		go h.drive(ctx, ask, d)
	}
	d.grant = g.Number
	h.mu.Unlock()
	<-d.done
	h.mu.Lock()
	return d.out, d.err
}

// drive works until the work ends or ctx does.
func (h *ledgerHost) drive(ctx context.Context, ask Ask, d *driving) {
	defer close(d.done)
	for {
		h.mu.Lock()
		ask.Grant.Number = d.grant
		h.mu.Unlock()
		call := h.client.Go("Ledger.Work", ask, &Told{}, nil)
		var told Told
		var err error
		select {
		case <-call.Done:
			told, err = *call.Reply.(*Told), call.Error
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		h.mu.Lock()
		if err == nil && (told.Wait || told.Err != "" && d.grant > ask.Grant.Number) {
			h.mu.Unlock()
			continue
		}
		d.out, d.err = told, errors.Join(err, kindError(told.Err))
		delete(h.driving, ask.ID)
		ask.Grant.Number = d.grant
		h.mu.Unlock()
		if ctx.Err() != nil {
			_ = h.call("Leave", ask, &Told{}) // the next one takes it in any case
		}
		return
	}
}

func (h *ledgerHost) call(method string, a Ask, out any) error {
	return h.client.Call("Ledger."+method, a, out)
}

// kindError returns the error of a kind.
func kindError(kind string) error {
	switch kind {
	case "":
		return nil
	case "failing":
		return errors.New(secretText)
	}
	return perdure.Kind(kind)
}

func (h *ledgerHost) Drive(ctx context.Context, id perdure.SessionID, g Grant) (Rest, error) {
	told, err := h.work(ctx, string(id), g)
	return Rest{Seq: told.Seq, Grant: told.Grant, Home: told.Home, Present: told.Present}, err
}

func (h *ledgerHost) RunTask(ctx context.Context, id perdure.TaskID, g Grant) (Ran, error) {
	told, err := h.work(ctx, string(id), g)
	return Ran{Grant: told.Grant, Home: told.Home, Present: told.Present, Ended: err == nil && told.Home == ""}, err
}

func (h *ledgerHost) OwnsSession(_ context.Context, id perdure.SessionID) (bool, error) {
	var told Told
	err := h.call("Owner", Ask{ID: string(id), Worker: h.worker}, &told)
	return told.Present, err
}

func (h *ledgerHost) OwnsTask(ctx context.Context, id perdure.TaskID) (bool, error) {
	return h.OwnsSession(ctx, perdure.SessionID(id))
}

func (h *ledgerHost) KeepTime(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h *ledgerHost) Tidy(context.Context) error { return nil }

func (h *ledgerHost) Due(_ context.Context, _ string, _ int) (w Waiting, err error) {
	return w, h.call("Waits", Ask{}, &w)
}

func (h *ledgerHost) DueSession(ctx context.Context, id perdure.SessionID) (WaitingSession, bool, error) {
	all, err := h.Due(ctx, "", 0)
	i := slices.IndexFunc(all.Sessions, func(w WaitingSession) bool { return w.ID == id })
	if i < 0 {
		return WaitingSession{}, false, err
	}
	return all.Sessions[i], true, err
}

func (h *ledgerHost) DueRuns(ctx context.Context, _ perdure.SessionID) ([]WaitingRun, error) {
	all, err := h.Due(ctx, "", 0)
	return all.Runs, err
}

func (h *ledgerHost) Interrupt(_ context.Context, id perdure.SessionID, _, _ string) error {
	return h.call("Cancel", Ask{ID: string(id)}, &Told{})
}

func (h *ledgerHost) CancelTask(_ context.Context, id perdure.TaskID, _, _ string) error {
	return h.call("Cancel", Ask{ID: string(id)}, &Told{})
}

var _ Host = (*ledgerHost)(nil)
