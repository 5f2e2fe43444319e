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

func (s *spyTx) Session(id perdure.SessionID) (store.Session, error) {
	s.about = append(s.about, string(id))
	return s.Tx.Session(id)
}

func (s *spyTx) Task(session perdure.SessionID, id perdure.TaskID) (perdure.Task, error) {
	s.about = append(s.about, string(id))
	return s.Tx.Task(session, id)
}

func (s *spyTx) Deliveries(id perdure.SessionID) ([]store.Delivery, error) {
	s.about = append(s.about, string(id))
	return s.Tx.Deliveries(id)
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

func (s *spyTx) LockSession(id perdure.SessionID, epoch int64) (int64, error) {
	s.locked, s.about = true, append(s.about, string(id))
	return s.Tx.LockSession(id, epoch)
}

func (s *spyTx) Append(id perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		s.note("%s %s %s", e.Type(), e.Call, e.Task)
	}
	s.note("in %s", id)
	return s.Tx.Append(id, events)
}

func (s *spyTx) CreateSession(row store.Session) error {
	s.note("create %s", row.ID)
	return s.Tx.CreateSession(row)
}

func (s *spyTx) TakeSession(id perdure.SessionID, worker perdure.WorkerID) (store.Session, error) {
	s.note("take %s", id)
	return s.Tx.TakeSession(id, worker)
}

func (s *spyTx) SaveSession(id perdure.SessionID, title string, status perdure.SessionStatus) error {
	s.note("save %s %s", id, status)
	return s.Tx.SaveSession(id, title, status)
}

func (s *spyTx) SetLabels(id perdure.SessionID, labels perdure.Labels) error {
	s.note("labels %s %d", id, len(labels))
	return s.Tx.SetLabels(id, labels)
}

func (s *spyTx) ReleaseSession(id perdure.SessionID, epoch int64) error {
	s.note("release %s", id)
	return s.Tx.ReleaseSession(id, epoch)
}

func (s *spyTx) PutSnapshot(id perdure.SessionID, snap store.Snapshot) error {
	s.note("snapshot %s %d", id, snap.Seq)
	return s.Tx.PutSnapshot(id, snap)
}

func (s *spyTx) Claim(c perdure.Call, live func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	s.note("claim %s", c.Key)
	return s.Tx.Claim(c, live)
}

func (s *spyTx) TakeCall(old, next perdure.Call) error {
	s.note("take call %s", next.Key)
	return s.Tx.TakeCall(old, next)
}

func (s *spyTx) BindCall(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error {
	s.note("bind %s %s", key, task)
	return s.Tx.BindCall(key, token, task, attempt)
}

func (s *spyTx) Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState, r perdure.ToolResult) error {
	s.note("settle %s %s", key, state)
	return s.Tx.Settle(key, token, state, r)
}

func (s *spyTx) ResolveCall(next perdure.Call, by string) error {
	s.note("resolve %s", next.Key)
	return s.Tx.ResolveCall(next, by)
}

func (s *spyTx) CreateTask(t perdure.Task) (perdure.Task, bool, error) {
	s.note("create %s", t.ID)
	return s.Tx.CreateTask(t)
}

func (s *spyTx) UpdateTask(
	id perdure.SessionID, task perdure.TaskID, u perdure.TaskUpdate,
) (perdure.TaskChange, error) {
	s.note("update %s %s", task, u.State)
	return s.Tx.UpdateTask(id, task, u)
}

func (s *spyTx) AddTaskMessage(m perdure.TaskMessage) error {
	s.note("message to %s", m.Task)
	return s.Tx.AddTaskMessage(m)
}

func (s *spyTx) AddDelivery(d store.Delivery) error {
	s.note("deliver %s", d.Task)
	return s.Tx.AddDelivery(d)
}

func (s *spyTx) ClaimDeliveries(id perdure.SessionID, tasks []perdure.TaskID) (int, error) {
	s.note("delivered %v", tasks)
	return s.Tx.ClaimDeliveries(id, tasks)
}

func (s *spyTx) AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error) {
	if len(p) > 0 {
		s.note("log %s %d", id, len(p))
	}
	return s.Tx.AppendLog(id, attempt, stream, p)
}

func (s *spyTx) SkipLog(id perdure.TaskID, attempt int, n int64) error {
	if n > 0 {
		s.note("skip in log %s %d", id, n)
	}
	return s.Tx.SkipLog(id, attempt, n)
}

func (s *spyTx) PutFile(id perdure.SessionID, f store.File) (bool, error) {
	s.note("put %s of %s", f.Path, id)
	return s.Tx.PutFile(id, f)
}

func (s *spyTx) BeatWorker(id perdure.WorkerID, lease time.Duration) (store.Heartbeat, error) {
	s.note("beat")
	return s.Tx.BeatWorker(id, lease)
}

func (s *spyTx) RetireWorker(id perdure.WorkerID) error {
	s.note("retire")
	return s.Tx.RetireWorker(id)
}

func (s *spyTx) RemoveWorker(id perdure.WorkerID) error {
	s.note("retire")
	return s.Tx.RemoveWorker(id)
}

func (s *spyTx) PutApproval(a perdure.Approval) error {
	s.note("approval %s %s", a.ID, a.State)
	return s.Tx.PutApproval(a)
}

func (s *spyTx) ClaimSpawn(h store.Spawn) (store.SpawnOutcome, store.Spawn, error) {
	s.note("claim the subagent of %s", h.Key)
	return s.Tx.ClaimSpawn(h)
}

func (s *spyTx) RegisterChild(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error {
	s.note("register %s of %s", child, key)
	return s.Tx.RegisterChild(key, token, child)
}

func (s *spyTx) RepairSpawn(key perdure.CallKey, token perdure.Token) (int, error) {
	s.note("repair %s", key)
	return s.Tx.RepairSpawn(key, token)
}

func (s *spyTx) SettleSpawn(
	key perdure.CallKey, token perdure.Token, status perdure.TaskState, result json.RawMessage,
) error {
	s.note("end the subagent of %s, %s", key, status)
	return s.Tx.SettleSpawn(key, token, status, result)
}

// spyReader records the first read of a view, and answers nothing.
type spyReader struct {
	store.Reader // nil: a method that is not overridden panics, which ends the probe
	did          string
}

func (s *spyReader) ask(format string, args ...any) error {
	if s.did == "" {
		s.did = fmt.Sprintf(format, args...)
	}
	return errProbe
}

func (s *spyReader) Session(id perdure.SessionID) (store.Session, error) {
	return store.Session{}, s.ask("session %s", id)
}

func (s *spyReader) Snapshot(id perdure.SessionID) (store.Snapshot, error) {
	return store.Snapshot{}, s.ask("snapshot %s", id)
}

func (s *spyReader) Events(id perdure.SessionID, after int64, _ int) ([]perdure.Event, error) {
	return nil, s.ask("events %s %d", id, after)
}

func (s *spyReader) Call(key perdure.CallKey) (perdure.Call, error) {
	return perdure.Call{}, s.ask("call %s", key)
}

func (s *spyReader) Task(_ perdure.SessionID, id perdure.TaskID) (perdure.Task, error) {
	return perdure.Task{}, s.ask("task %s", id)
}

func (s *spyReader) Tasks(f store.TaskFilter) ([]perdure.Task, error) {
	return nil, s.ask("tasks %s %v", f.Session, f.States)
}

func (s *spyReader) CountTasks(state perdure.TaskState, id perdure.SessionID) ([]store.TaskCount, error) {
	return nil, s.ask("count %s %s", id, state)
}

func (s *spyReader) TaskMessages(id perdure.TaskID, _ perdure.TaskMessageID, _ int) ([]perdure.TaskMessage, error) {
	return nil, s.ask("messages %s", id)
}

func (s *spyReader) Approval(id perdure.ApprovalID) (perdure.Approval, error) {
	return perdure.Approval{}, s.ask("approval %s", id)
}

func (s *spyReader) Approvals(f store.ApprovalFilter) ([]perdure.Approval, error) {
	return nil, s.ask("approvals %s %s %s", f.Session, f.Call, f.State)
}

func (s *spyReader) File(id perdure.SessionID, path string) (store.File, error) {
	return store.File{}, s.ask("file %s %s", id, path)
}

func (s *spyReader) Spawn(key perdure.CallKey) (store.Spawn, error) {
	return store.Spawn{}, s.ask("subagent of %s", key)
}

func (s *spyReader) SpawnOf(child perdure.SessionID) (store.Spawn, error) {
	return store.Spawn{}, s.ask("whose is %s", child)
}

func (s *spyReader) Spawns(root perdure.SessionID) ([]store.Spawn, error) {
	return nil, s.ask("subagents of %s", root)
}
