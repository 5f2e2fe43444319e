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

// world is what outlives engines: the memory, what happened outside, what was told, and the program.
type world struct {
	program Program
	tools   *tool.Registry
	memory  *memory.Store
	gate    *gate
	ids     []perdure.SessionID // of the program's sessions; only written before the first step

	mu      sync.Mutex
	trace   *trace                     // guarded by mu
	ledger  []chaos.Line               // guarded by mu
	told    []chaos.Told               // guarded by mu; what clients were told, but for events
	broken  []chaos.Violation          // guarded by mu
	touched map[perdure.SessionID]bool // guarded by mu; since somebody looked
	ops     int                        // guarded by mu; that clients wait for
	filled  int                        // guarded by mu; jobs that hold a place until all are held
	full    chan struct{}              // closed when they may end

	life  *life                        // only touched by the player, as is all below
	lives []*life                      //
	views map[perdure.SessionID]*view  //
	seen  map[string]int               // how often a label was let through
	moved int                          // commits that wrote something
	calm  bool                         // nothing goes wrong any more
	sends map[perdure.MessageID]letter //
}

// letter is a message that was sent.
type letter struct {
	to      perdure.SessionID
	message perdure.Message
}

// view is what somebody who reads everything knows of a session.
type view struct {
	fold    *perdure.Session
	journal chaos.Journal
	told    []chaos.Told // its events, as they were shown
	rows    chaos.Rows
}

// life is one engine, which may die.
type life struct {
	w      *world
	n      int
	eng    *local.Engine
	stop   context.CancelFunc
	over   atomic.Bool
	jobs   atomic.Int64
	doomed atomic.Bool // it dies when all that its last commit led to has come to a halt
	ended  chan struct{}
	err    error // of Run; read after ended
}

func (l *life) isDead() bool { return l.over.Load() }

// kill ends a life as SIGKILL does: from now on nothing of it has an effect. What waits at the gate is turned away.
func (l *life) kill() {
	if l.over.Swap(true) {
		return
	}
	l.w.gate.turnAway(l)
	l.stop()
}

// hasEnded reports whether Run has returned.
func (l *life) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// The clocks of an engine of a program.
const (
	grace = 30 * time.Millisecond
	beat  = 900 * time.Millisecond
)

// places is how many background runs a session may have.
const places = 2

func newWorld(p Program, tools *tool.Registry) *world {
	return &world{
		program: p, tools: tools, memory: memory.New(memory.Config{}), gate: newGate(), trace: newTrace(), touched: map[perdure.SessionID]bool{},
		full: make(chan struct{}), views: map[perdure.SessionID]*view{}, seen: map[string]int{}, sends: map[perdure.MessageID]letter{},
	}
}

// start makes the next engine, over a handle of its own.
func (w *world) start() error {
	l := &life{w: w, n: len(w.lives) + 1, ended: make(chan struct{})}
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), lifeKey{}, l))
	l.stop = stop
	s := w.program.Settings
	eng, err := local.Open(ctx, local.Config{
		Store: newHandle(w, l), Model: &mind{w: w, l: l}, Tools: w.tools, Route: route, PerSession: places, PerProcess: places * w.program.Sessions,
		PerSessionDetached: places, Overflow: local.Overflow(s.Overflow), EvictCap: 4, ApprovalExpiry: s.Expiry, MaxExecutions: -1, NoProgress: -1,
		Grace: grace, Drain: s.Drain, Beat: beat, Lease: 4 * beat, DeferAbove: -1,
		SubagentsLive: s.Agents,
	})
	if err != nil {
		stop()
		return fmt.Errorf("open engine %d: %w", l.n, err)
	}
	l.eng = eng
	w.life, w.lives = l, append(w.lives, l)
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

// wrong notes a broken promise.
func (w *world) wrong(invariant string, id perdure.SessionID, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, chaos.Violation{Invariant: invariant, Session: id, Text: text})
}

// committed notes what a commit wrote, or pretended to.
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
		w.told = append(w.told, chaos.Told{Session: e.Session, Event: body})
	}
}

// seenTx is a transaction that is really carried out. It sees what is written, and gives sessions secrets that follow from
// the seed, so that derived ids do too.
type seenTx struct {
	store.Tx
	w       *world
	told    []perdure.Event
	touched []perdure.SessionID
}

func (s *seenTx) CreateSession(row store.Session) error {
	for i := range row.Secret {
		row.Secret[i] = byte(s.w.hash("secret", row.ID, i))
	}
	return s.Tx.CreateSession(row)
}

func (s *seenTx) Append(id perdure.SessionID, events []perdure.Event) error {
	err := s.Tx.Append(id, events)
	if err == nil {
		s.told = append(s.told, slices.Clone(events)...)
	}
	return err
}

func (s *seenTx) UpdateTask(id perdure.SessionID, task perdure.TaskID, u perdure.TaskUpdate) (perdure.TaskChange, error) {
	change, err := s.Tx.UpdateTask(id, task, u)
	s.touched = append(s.touched, change.Task.Session)
	return change, err
}

// fill holds a place until all are held.
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

// look reads what was committed since the last time, as somebody does who follows every session, and compares it with the
// rows. It is called while everything is blocked.
func (w *world) look() {
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
				w.wrong("I6", id, err.Error())
			}
		}
		return nil
	})
	if err != nil {
		w.wrong("I6", "", err.Error())
	}
}

// read brings the view of one session up to date.
func (w *world) read(r store.Reader, id perdure.SessionID) error {
	v := w.views[id]
	if v == nil {
		v = &view{fold: perdure.NewSession(id), journal: chaos.Journal{Session: id}}
		w.views[id] = v
	}
	events, err := r.Events(id, v.fold.Seq, 0)
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
	row, err := r.Session(id)
	if err != nil {
		return err
	}
	v.rows = chaos.Rows{Session: id, Title: row.Title, Status: row.Status, LastSeq: row.LastSeq}
	if v.rows.Tasks, err = r.Tasks(store.TaskFilter{Session: id}); err != nil {
		return err
	}
	if v.rows.Calls, err = r.Calls(store.CallFilter{Session: id}); err != nil {
		return err
	}
	if v.rows.Approvals, err = r.Approvals(store.ApprovalFilter{Session: id}); err != nil {
		return err
	}
	handles, err := r.Spawns(v.fold.RootID())
	if err != nil {
		return err
	}
	for _, h := range handles {
		if h.Key.Session == id {
			v.rows.Handles = append(v.rows.Handles, chaos.Handle{Call: h.Key.Call, Task: h.Task, Child: h.Child, Ended: h.State == store.SpawnSettled})
		}
	}
	for _, text := range chaos.Differences(v.fold, v.rows) {
		w.wrong("I6", id, text)
	}
	return nil
}

// sessions are those that were seen, in a fixed order.
func (w *world) sessions() []perdure.SessionID {
	var ids []perdure.SessionID
	for id := range w.views {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// between are the invariants that are judged between two steps. I6 and I17 are not among them, which fold every journal from
// its beginning: look compares the rows after each commit, and the model sees whether its calls are paired.
func between() []chaos.Invariant {
	return []chaos.Invariant{
		chaos.NoLostSettle, chaos.NoDuplicateEffect, chaos.OneKey, chaos.OneTerminal, chaos.Prefix, chaos.SpawnOnce, chaos.CancelFinal, chaos.DeliveredOnce,
	}
}

// judge checks the invariants on all that is left. live: the program goes on.
func (w *world) judge(live bool) {
	w.mu.Lock()
	record := chaos.Record{Ledger: w.ledger, Told: w.told, Live: live, CancelBound: time.Minute}
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
