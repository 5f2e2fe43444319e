package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// errProbe ends a transaction or view that is only probed.
var errProbe = errors.New("only looked at")

// caller names the functions that request a view, so that views of different kinds have different
// labels.
func caller() string {
	pcs := make([]uintptr, 6)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		b.WriteString(f.Function[strings.LastIndexByte(f.Function, '/')+1:])
		b.WriteByte(' ')
	}
	return b.String()
}

// probe determines what an item is about to do. It is called while every goroutine is blocked, so
// that the answer does not depend on when the item arrived. It rolls the transaction back, which a
// store may do with any first run (InTx).
func (w *world) probe(it *item) {
	defer func() { it.label = it.life.prefix() + it.label }()
	switch it.sort {
	case commit:
		spy := &spyTx{}
		err := w.quietly(func() error {
			return w.memory.InTx(context.Background(), func(tx store.Tx) error {
				spy.Tx = tx
				if err := it.fn(spy); err != nil {
					return err
				}
				return errProbe
			})
		})
		it.label, it.writes, it.mayDelay = strings.Join(spy.did, ", "), spy.moves(), spy.locked
		switch {
		case !errors.Is(err, errProbe):
			it.label, it.writes = fmt.Sprintf("refused: %v; %s", kindOf(err), it.label), true
		case !it.writes:
			it.label = "nothing about " + strings.Join(spy.about, " ")
		}
	case look:
		spy := &spyReader{}
		_ = w.quietly(func() error { return it.view(spy) }) // it gets no answers, so it fails
		it.label = "view " + spy.did + " for " + it.label
	}
}

// quietly runs a probe. A panic in it will occur again when the item passes.
func (w *world) quietly(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// kindOf returns an error without its ids.
func kindOf(err error) error {
	for _, kind := range []error{perdure.NotFound, perdure.Conflict, perdure.Lost, perdure.Limit, perdure.Invalid,
		perdure.Unavailable, perdure.Storage} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	if err != nil {
		return errors.New("error")
	}
	return nil
}

// spyTx records what a transaction writes, without random ids.
type spyTx struct {
	store.Tx
	did    []string
	about  []string // the objects that it reads
	locked bool     // the transaction of a driver
}

// spyTxSessions overrides a part of one noun.
type spyTxSessions struct {
	store.Sessions
	*spyTx
}

func (s *spyTx) Sessions() store.Sessions { return spyTxSessions{s.Tx.Sessions(), s} }

// spyTxTasks overrides a part of one noun.
type spyTxTasks struct {
	store.Tasks
	*spyTx
}

func (s *spyTx) Tasks() store.Tasks { return spyTxTasks{s.Tx.Tasks(), s} }

// spyTxJournal overrides a part of one noun.
type spyTxJournal struct {
	store.Journal
	*spyTx
}

func (s *spyTx) Journal() store.Journal { return spyTxJournal{s.Tx.Journal(), s} }

// spyTxCalls overrides a part of one noun.
type spyTxCalls struct {
	store.Calls
	*spyTx
}

func (s *spyTx) Calls() store.Calls { return spyTxCalls{s.Tx.Calls(), s} }

// spyTxFiles overrides a part of one noun.
type spyTxFiles struct {
	store.Files
	*spyTx
}

func (s *spyTx) Files() store.Files { return spyTxFiles{s.Tx.Files(), s} }

// spyTxWorkers overrides a part of one noun.
type spyTxWorkers struct {
	store.Workers
	*spyTx
}

func (s *spyTx) Workers() store.Workers { return spyTxWorkers{s.Tx.Workers(), s} }

// spyTxApprovals overrides a part of one noun.
type spyTxApprovals struct {
	store.Approvals
	*spyTx
}

func (s *spyTx) Approvals() store.Approvals { return spyTxApprovals{s.Tx.Approvals(), s} }

// spyTxSpawns overrides a part of one noun.
type spyTxSpawns struct {
	store.Spawns
	*spyTx
}

func (s *spyTx) Spawns() store.Spawns { return spyTxSpawns{s.Tx.Spawns(), s} }

// spyTxReader reads what the transaction shows.
type spyTxReader struct {
	store.Reader
	tx *spyTx
}

func (s *spyTx) Reader() store.Reader { return spyTxReader{s.Tx.Reader(), s} }

func (r spyTxReader) Sessions() store.SessionsView { return r.tx.Sessions() }

func (r spyTxReader) Tasks() store.TaskReader { return r.tx.Tasks() }

func (r spyTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (r spyTxReader) Calls() store.CallReader { return r.tx.Calls() }

func (r spyTxReader) Files() store.FileReader { return r.tx.Files() }

func (r spyTxReader) Workers() store.WorkerReader { return r.tx.Workers() }

func (r spyTxReader) Approvals() store.ApprovalReader { return r.tx.Approvals() }

func (r spyTxReader) Spawns() store.SpawnReader { return r.tx.Spawns() }

func (s spyTxSessions) Get(id perdure.SessionID) (store.Session, error) {
	s.about = append(s.about, string(id))
	return s.Sessions.Get(id)
}

func (s spyTxTasks) Get(session perdure.SessionID, id perdure.TaskID) (perdure.Task, error) {
	s.about = append(s.about, string(id))
	return s.Tasks.Get(session, id)
}

func (s spyTxTasks) Deliveries(id perdure.SessionID) ([]store.Delivery, error) {
	s.about = append(s.about, string(id))
	return s.Tasks.Deliveries(id)
}

// moves reports whether the transaction writes something significant. A driver that acquires a
// session, finds nothing to do and releases it does not: how often that happens depends on whether
// two wake-ups were merged.
func (s *spyTx) moves() bool {
	for _, did := range s.did {
		if !strings.HasPrefix(did, "take session") && !strings.HasPrefix(did, "release session") {
			return true
		}
	}
	return false
}

func (s *spyTx) note(format string, args ...any) { s.did = append(s.did, fmt.Sprintf(format, args...)) }

func (s spyTxSessions) Lock(id perdure.SessionID, epoch int64) (int64, error) {
	s.locked, s.about = true, append(s.about, string(id))
	return s.Sessions.Lock(id, epoch)
}

func (s spyTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		s.note("%s %s %s", e.Type(), e.Call, e.Task)
	}
	s.note("in %s", id)
	return s.Journal.Append(id, events)
}

func (s spyTxSessions) Create(row store.Session) error {
	s.note("create %s", row.ID)
	return s.Sessions.Create(row)
}

func (s spyTxSessions) Acquire(id perdure.SessionID, worker perdure.WorkerID) (store.Session, error) {
	s.note("take %s", id)
	return s.Sessions.Acquire(id, worker)
}

func (s spyTxSessions) Update(id perdure.SessionID, title string, status perdure.SessionStatus) error {
	s.note("save %s %s", id, status)
	return s.Sessions.Update(id, title, status)
}

func (s spyTxSessions) SetLabels(id perdure.SessionID, labels perdure.Labels) error {
	s.note("labels %s %d", id, len(labels))
	return s.Sessions.SetLabels(id, labels)
}

func (s spyTxSessions) Release(id perdure.SessionID, epoch int64) error {
	s.note("release %s", id)
	return s.Sessions.Release(id, epoch)
}

func (s spyTxSessions) PutSnapshot(id perdure.SessionID, snap store.Snapshot) error {
	s.note("snapshot %s %d", id, snap.Seq)
	return s.Sessions.PutSnapshot(id, snap)
}

func (s spyTxCalls) Claim(c perdure.Call, live func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	s.note("claim %s", c.Key)
	return s.Calls.Claim(c, live)
}

func (s spyTxCalls) TakeOver(old, next perdure.Call) error {
	s.note("take call %s", next.Key)
	return s.Calls.TakeOver(old, next)
}

func (s spyTxCalls) Bind(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error {
	s.note("bind %s %s", key, task)
	return s.Calls.Bind(key, token, task, attempt)
}

func (s spyTxCalls) Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState, r perdure.ToolResult) error {
	s.note("settle %s %s", key, state)
	return s.Calls.Settle(key, token, state, r)
}

func (s spyTxCalls) Resolve(next perdure.Call, by string) error {
	s.note("resolve %s", next.Key)
	return s.Calls.Resolve(next, by)
}

func (s spyTxTasks) Create(t perdure.Task) (perdure.Task, bool, error) {
	s.note("create %s", t.ID)
	return s.Tasks.Create(t)
}

func (s spyTxTasks) Update(
	id perdure.SessionID, task perdure.TaskID, u perdure.TaskUpdate,
) (perdure.TaskChange, error) {
	s.note("update %s %s", task, u.State)
	return s.Tasks.Update(id, task, u)
}

func (s spyTxTasks) AddMessage(m perdure.TaskMessage) error {
	s.note("message to %s", m.Task)
	return s.Tasks.AddMessage(m)
}

func (s spyTxTasks) AddDelivery(d store.Delivery) error {
	s.note("deliver %s", d.Task)
	return s.Tasks.AddDelivery(d)
}

func (s spyTxTasks) ClaimDeliveries(id perdure.SessionID, tasks []perdure.TaskID) (int, error) {
	s.note("delivered %v", tasks)
	return s.Tasks.ClaimDeliveries(id, tasks)
}

func (s spyTxTasks) AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error) {
	if len(p) > 0 {
		s.note("log %s %d", id, len(p))
	}
	return s.Tasks.AppendLog(id, attempt, stream, p)
}

func (s spyTxTasks) SkipLog(id perdure.TaskID, attempt int, n int64) error {
	if n > 0 {
		s.note("skip in log %s %d", id, n)
	}
	return s.Tasks.SkipLog(id, attempt, n)
}

func (s spyTxFiles) Put(id perdure.SessionID, f store.File) (bool, error) {
	s.note("put %s of %s", f.Path, id)
	return s.Files.Put(id, f)
}

func (s spyTxWorkers) UseGrant(work store.Work, by perdure.WorkerID, number int64) error {
	s.note("use grant %d of %s %s", number, work.Session, work.Task)
	return s.Workers.UseGrant(work, by, number)
}

func (s spyTxWorkers) Renew(id perdure.WorkerID, lease time.Duration) (store.Heartbeat, error) {
	s.note("beat")
	return s.Workers.Renew(id, lease)
}

func (s spyTxWorkers) Retire(id perdure.WorkerID) error {
	s.note("retire")
	return s.Workers.Retire(id)
}

func (s spyTxWorkers) Remove(id perdure.WorkerID) error {
	s.note("retire")
	return s.Workers.Remove(id)
}

func (s spyTxApprovals) Put(a perdure.Approval) error {
	s.note("approval %s %s", a.ID, a.State)
	return s.Approvals.Put(a)
}

func (s spyTxSpawns) Claim(h store.Spawn) (store.SpawnOutcome, store.Spawn, error) {
	s.note("claim the subagent of %s", h.Key)
	return s.Spawns.Claim(h)
}

func (s spyTxSpawns) RegisterChild(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error {
	s.note("register %s of %s", child, key)
	return s.Spawns.RegisterChild(key, token, child)
}

func (s spyTxSpawns) Repair(key perdure.CallKey, token perdure.Token) (int, error) {
	s.note("repair %s", key)
	return s.Spawns.Repair(key, token)
}

func (s spyTxSpawns) Settle(
	key perdure.CallKey, token perdure.Token, status perdure.TaskState, result json.RawMessage,
) error {
	s.note("end the subagent of %s, %s", key, status)
	return s.Spawns.Settle(key, token, status, result)
}

// spyReader records the first read of a view, and answers nothing.
type spyReader struct {
	store.Reader // nil: a method that is not overridden panics, which ends the probe
	did          string
}

// spyReaderSessions overrides a part of one noun.
type spyReaderSessions struct {
	store.SessionsView
	*spyReader
}

func (s *spyReader) Sessions() store.SessionsView { return spyReaderSessions{nil, s} }

// spyReaderJournal overrides a part of one noun.
type spyReaderJournal struct {
	store.JournalView
	*spyReader
}

func (s *spyReader) Journal() store.JournalView { return spyReaderJournal{nil, s} }

// spyReaderCalls overrides a part of one noun.
type spyReaderCalls struct {
	store.CallReader
	*spyReader
}

func (s *spyReader) Calls() store.CallReader { return spyReaderCalls{nil, s} }

// spyReaderTasks overrides a part of one noun.
type spyReaderTasks struct {
	store.TaskReader
	*spyReader
}

func (s *spyReader) Tasks() store.TaskReader { return spyReaderTasks{nil, s} }

// spyReaderApprovals overrides a part of one noun.
type spyReaderApprovals struct {
	store.ApprovalReader
	*spyReader
}

func (s *spyReader) Approvals() store.ApprovalReader { return spyReaderApprovals{nil, s} }

// spyReaderFiles overrides a part of one noun.
type spyReaderFiles struct {
	store.FileReader
	*spyReader
}

func (s *spyReader) Files() store.FileReader { return spyReaderFiles{nil, s} }

// spyReaderSpawns overrides a part of one noun.
type spyReaderSpawns struct {
	store.SpawnReader
	*spyReader
}

func (s *spyReader) Spawns() store.SpawnReader { return spyReaderSpawns{nil, s} }

func (s *spyReader) ask(format string, args ...any) error {
	if s.did == "" {
		s.did = fmt.Sprintf(format, args...)
	}
	return errProbe
}

func (s spyReaderSessions) Get(id perdure.SessionID) (store.Session, error) {
	return store.Session{}, s.ask("session %s", id)
}

func (s spyReaderSessions) Snapshot(id perdure.SessionID) (store.Snapshot, error) {
	return store.Snapshot{}, s.ask("snapshot %s", id)
}

func (s spyReaderJournal) Events(id perdure.SessionID, after int64, _ int) ([]perdure.Event, error) {
	return nil, s.ask("events %s %d", id, after)
}

func (s spyReaderCalls) Get(key perdure.CallKey) (perdure.Call, error) {
	return perdure.Call{}, s.ask("call %s", key)
}

func (s spyReaderTasks) Get(_ perdure.SessionID, id perdure.TaskID) (perdure.Task, error) {
	return perdure.Task{}, s.ask("task %s", id)
}

func (s spyReaderTasks) List(f store.TaskFilter) ([]perdure.Task, error) {
	return nil, s.ask("tasks %s %v", f.Session, f.States)
}

func (s spyReaderTasks) Count(state perdure.TaskState, id perdure.SessionID) ([]store.TaskCount, error) {
	return nil, s.ask("count %s %s", id, state)
}

func (s spyReaderTasks) Messages(id perdure.TaskID, _ perdure.TaskMessageID, _ int) ([]perdure.TaskMessage, error) {
	return nil, s.ask("messages %s", id)
}

func (s spyReaderApprovals) Get(id perdure.ApprovalID) (perdure.Approval, error) {
	return perdure.Approval{}, s.ask("approval %s", id)
}

func (s spyReaderApprovals) List(f store.ApprovalFilter) ([]perdure.Approval, error) {
	return nil, s.ask("approvals %s %s %s", f.Session, f.Call, f.State)
}

func (s spyReaderFiles) Get(id perdure.SessionID, path string) (store.File, error) {
	return store.File{}, s.ask("file %s %s", id, path)
}

func (s spyReaderSpawns) Get(key perdure.CallKey) (store.Spawn, error) {
	return store.Spawn{}, s.ask("subagent of %s", key)
}

func (s spyReaderSpawns) OfChild(child perdure.SessionID) (store.Spawn, error) {
	return store.Spawn{}, s.ask("whose is %s", child)
}

func (s spyReaderSpawns) List(root perdure.SessionID) ([]store.Spawn, error) {
	return nil, s.ask("subagents of %s", root)
}
