package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// world is what survives engines: the memory store, the outside world, the answers to clients, and
// the program.
type world struct {
	program Program
	tools   *tool.Registry
	memory  *memory.Store
	gate    *gate
	ids     []perdure.SessionID // the program's sessions; only written before the first step

	mu       sync.Mutex
	trace    *trace                     // guarded by mu
	ledger   []chaos.Line               // guarded by mu
	received []chaos.Response           // guarded by mu; what clients and followers have received
	broken   []chaos.Violation          // guarded by mu
	touched  map[perdure.SessionID]bool // guarded by mu; changed since the last look
	ops      int                        // guarded by mu; running operations of clients
	filled   map[string]bool            // guarded by mu; jobs that hold a slot until all are occupied
	full     chan struct{}              // closed when those jobs may end

	fences fences // guarded by mu

	scheduler    *scheduler                        // outside of the engines; nil: the engine schedules its own work
	running      []*process                        // the last engine of each host; this and the following fields are only touched by the player
	processes    []*process                        // all of them
	views        map[perdure.SessionID]*view       //
	seen         map[string]int                    // how often an item with this label has passed
	writeCommits int                               // commits with a significant write
	calm         bool                              // no more faults
	sends        map[perdure.MessageID]sentMessage //
}

// sentMessage is a sent message.
type sentMessage struct {
	to      perdure.SessionID
	message perdure.Message
}

// view is what a reader of everything knows about a session.
type view struct {
	fold     *perdure.Session
	journal  chaos.Journal
	received []chaos.Response // its events as they were shown
	rows     chaos.Rows
}

func newWorld(p Program, tools *tool.Registry) *world {
	w := &world{
		program: p, tools: tools, memory: memory.New(memory.Config{}), gate: newGate(), trace: newTrace(),
		touched: map[perdure.SessionID]bool{}, full: make(chan struct{}), views: map[perdure.SessionID]*view{},
		seen: map[string]int{}, sends: map[perdure.MessageID]sentMessage{}, filled: map[string]bool{}, fences: newFences(),
		running: make([]*process, max(p.Hosts, 1)),
	}
	if p.Hosts > 0 {
		w.scheduler = newScheduler(w)
	}
	return w
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.add(format, args...)
}

// addViolation records a violation.
func (w *world) addViolation(invariant string, id perdure.SessionID, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, chaos.Violation{Invariant: invariant, Session: id, Text: text})
}

// fill holds a slot until all are occupied.
func (w *world) fill(ctx context.Context, order string) {
	w.mu.Lock()
	w.filled[order] = true
	w.mu.Unlock()
	w.gate.ring()
	select {
	case <-w.full:
	case <-ctx.Done():
	}
}

// readCommits reads what was committed since the last time, like a reader that follows every
// session, and compares it with the rows. It is called while everything is blocked.
func (w *world) readCommits() {
	w.mu.Lock()
	touched := w.touched
	w.touched = map[perdure.SessionID]bool{}
	w.mu.Unlock()
	if len(touched) == 0 {
		return
	}
	err := w.memory.View(context.Background(), func(r store.Reader) error {
		for id := range touched {
			if id == "" {
				continue
			}
			if err := w.read(r, id); err != nil {
				w.addViolation("I6", id, err.Error())
			}
		}
		return nil
	})
	if err != nil {
		w.addViolation("I6", "", err.Error())
	}
}

// read updates the view of one session.
func (w *world) read(r store.Reader, id perdure.SessionID) error {
	v := w.views[id]
	if v == nil {
		v = &view{fold: perdure.NewSession(id), journal: chaos.Journal{Session: id}}
		w.views[id] = v
	}
	events, err := r.Journal().Events(id, v.fold.Seq, 0)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := v.fold.Apply(e); err != nil {
			return err
		}
		body, err := perdure.EncodeEvent(e)
		if err != nil {
			return err
		}
		v.journal.Events, v.journal.Stored = append(v.journal.Events, e), append(v.journal.Stored, body)
	}
	row, err := r.Sessions().Get(id)
	if err != nil {
		return err
	}
	v.rows = chaos.Rows{Session: id, Title: row.Title, Status: row.Status, LastSeq: row.LastSeq}
	if v.rows.Tasks, err = r.Tasks().List(store.TaskFilter{Session: id}); err != nil {
		return err
	}
	if v.rows.Calls, err = r.Calls().List(store.CallFilter{Session: id}); err != nil {
		return err
	}
	if v.rows.Approvals, err = r.Approvals().List(store.ApprovalFilter{Session: id}); err != nil {
		return err
	}
	handles, err := r.Spawns().List(v.fold.RootID())
	if err != nil {
		return err
	}
	for _, h := range handles {
		if h.Key.Session == id {
			v.rows.Handles = append(v.rows.Handles, chaos.Handle{
				Call: h.Key.Call, Task: h.Task, Child: h.Child, Ended: h.State == store.SpawnSettled,
			})
		}
	}
	for _, text := range chaos.Differences(v.fold, v.rows) {
		w.addViolation("I6", id, text)
	}
	return nil
}

// sessions returns the known sessions in a fixed order.
func (w *world) sessions() []perdure.SessionID {
	var ids []perdure.SessionID
	for id := range w.views {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// between returns the invariants that are checked between two steps. I6 and I17 are not included,
// because they fold every journal from its start: look compares the rows after each commit, and the
// model checks whether its calls are paired.
func between() []chaos.Invariant {
	return []chaos.Invariant{
		chaos.NoLostSettle, chaos.NoDuplicateEffect, chaos.OneKey, chaos.OneTerminal, chaos.Prefix, chaos.SpawnOnce,
		chaos.CancelFinal, chaos.DeliveredOnce,
	}
}

// checkInvariants checks the invariants on everything so far. live means that the program
// continues.
func (w *world) checkInvariants(live bool) {
	w.mu.Lock()
	record := chaos.Record{Ledger: w.ledger, Responses: w.received, Live: live, CancelBound: time.Minute, Zombies: w.scheduler != nil}
	w.mu.Unlock()
	for _, id := range w.sessions() {
		v := w.views[id]
		record.Journals = append(record.Journals, v.journal)
		record.Rows = append(record.Rows, v.rows)
	}
	invariants := chaos.Invariants()
	if live {
		invariants = between()
	}
	var found []chaos.Violation
	for _, invariant := range invariants {
		found = append(found, invariant(record)...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range found {
		if !slices.Contains(w.broken, v) {
			w.broken = append(w.broken, v)
		}
	}
}
