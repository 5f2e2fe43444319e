package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
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
	filled   int                        // guarded by mu; jobs that hold a slot until all are occupied
	full     chan struct{}              // closed when those jobs may end

	current      *process                          // this and the following fields are only touched by the player
	processes    []*process                        //
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

// process is one engine, which may die.
type process struct {
	w      *world
	n      int
	eng    *local.Engine
	stop   context.CancelFunc
	over   atomic.Bool
	jobs   atomic.Int64
	doomed atomic.Bool // it dies when the consequences of its last commit have stopped
	ended  chan struct{}
	err    error // of Run; read after ended
}

func (l *process) isDead() bool { return l.over.Load() }

// kill ends an engine like SIGKILL: from now on nothing of it has an effect. Its items at the gate
// are turned away.
func (l *process) kill() {
	if l.over.Swap(true) {
		return
	}
	l.w.gate.dropProcess(l)
	l.stop()
}

// hasEnded reports whether Run has returned.
func (l *process) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// The timings of an engine of a program.
const (
	grace = 30 * time.Millisecond
	beat  = 900 * time.Millisecond
)

// slotsPerSession is the number of slots for background runs per session.
const slotsPerSession = 2

func newWorld(p Program, tools *tool.Registry) *world {
	return &world{
		program: p, tools: tools, memory: memory.New(memory.Config{}), gate: newGate(), trace: newTrace(),
		touched: map[perdure.SessionID]bool{}, full: make(chan struct{}), views: map[perdure.SessionID]*view{},
		seen: map[string]int{}, sends: map[perdure.MessageID]sentMessage{},
	}
}

// start opens and runs the next engine, over its own handle.
func (w *world) start() error {
	l := &process{w: w, n: len(w.processes) + 1, ended: make(chan struct{})}
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), processKey{}, l))
	l.stop = stop
	s := w.program.Settings
	eng, err := local.Open(ctx, local.Config{
		Store: newHandle(w, l), Model: &scriptedModel{w: w, l: l}, Tools: w.tools,
		Policies: local.Policies{Route: route},
		Limits:   local.Limits{SlotsPerSession: slotsPerSession, SlotsPerProcess: slotsPerSession * w.program.Sessions, DetachedPerSession: slotsPerSession, Overflow: local.Overflow(s.Overflow), EvictCap: 4, MaxExecutions: -1, NoProgress: -1, DeferAbove: -1, SubagentsLive: s.Agents},
		Timing:   local.Timing{ApprovalExpiry: s.Expiry, Grace: grace, Drain: s.Drain},
		Workers:  local.Workers{Beat: beat, Lease: 4 * beat},
	})
	if err != nil {
		stop()
		return fmt.Errorf("open engine %d: %w", l.n, err)
	}
	l.eng = eng
	w.current, w.processes = l, append(w.processes, l)
	w.note("engine %d", l.n)
	go func() {
		defer w.gate.ring()
		l.err = eng.Run(ctx)
		close(l.ended)
	}()
	return nil
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

// committed records what a commit wrote, or pretended to write.
func (w *world) committed(tx *seenTx) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range tx.touched {
		w.touched[id] = true
	}
	for _, e := range tx.told {
		w.touched[e.Session] = true
		body, err := perdure.EncodeEvent(e)
		if err != nil {
			body = []byte(err.Error())
		}
		w.trace.add("%s", body)
		w.received = append(w.received, chaos.Response{Session: e.Session, Event: body})
	}
}

// seenTx is a transaction that is really carried out. It records the writes, and derives the
// secrets of sessions from the seed, so that derived ids depend on the seed too.
type seenTx struct {
	store.Tx
	w       *world
	told    []perdure.Event
	touched []perdure.SessionID
}

// seenTxSessions overrides a part of one noun.
type seenTxSessions struct {
	store.Sessions
	*seenTx
}

func (s *seenTx) Sessions() store.Sessions { return seenTxSessions{s.Tx.Sessions(), s} }

// seenTxJournal overrides a part of one noun.
type seenTxJournal struct {
	store.Journal
	*seenTx
}

func (s *seenTx) Journal() store.Journal { return seenTxJournal{s.Tx.Journal(), s} }

// seenTxTasks overrides a part of one noun.
type seenTxTasks struct {
	store.Tasks
	*seenTx
}

func (s *seenTx) Tasks() store.Tasks { return seenTxTasks{s.Tx.Tasks(), s} }

// seenTxReader reads what the transaction shows.
type seenTxReader struct {
	store.Reader
	tx *seenTx
}

func (s *seenTx) Reader() store.Reader { return seenTxReader{s.Tx.Reader(), s} }

func (r seenTxReader) Sessions() store.SessionsView { return r.tx.Sessions() }

func (r seenTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (r seenTxReader) Tasks() store.TaskReader { return r.tx.Tasks() }

func (s seenTxSessions) Create(row store.Session) error {
	for i := range row.Secret {
		row.Secret[i] = byte(s.w.hash("secret", row.ID, i))
	}
	return s.Sessions.Create(row)
}

func (s seenTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	err := s.Journal.Append(id, events)
	if err == nil {
		s.told = append(s.told, slices.Clone(events)...)
	}
	return err
}

func (s seenTxTasks) Update(
	id perdure.SessionID, task perdure.TaskID, u perdure.TaskUpdate,
) (perdure.TaskChange, error) {
	change, err := s.Tasks.Update(id, task, u)
	s.touched = append(s.touched, change.Task.Session)
	return change, err
}

// fill holds a slot until all are occupied.
func (w *world) fill(ctx context.Context) {
	w.mu.Lock()
	w.filled++
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
	record := chaos.Record{Ledger: w.ledger, Responses: w.received, Live: live, CancelBound: time.Minute}
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
