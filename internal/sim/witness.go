package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// errPretend rolls back a transaction that is reported as committed.
var errPretend = errors.New("rolled back by the simulation")

// witness is the memory store, with a record of what is really committed.
type witness struct {
	*memory.Store
	w *world
	h *handle
}

// InTx records what was written once it is committed, whatever answer its caller gets.
func (s *witness) InTx(ctx context.Context, fn func(store.Tx) error) error {
	s.h.mu.Lock()
	pretend := s.h.pretend
	s.h.pretend = false
	s.h.mu.Unlock()
	var seen *seenTx
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		seen = &seenTx{Tx: tx, w: s.w, l: s.h.l}
		if err := fn(seen); err != nil {
			return err
		}
		if pretend {
			return errPretend
		}
		return nil
	})
	if err == nil || pretend && errors.Is(err, errPretend) {
		s.w.committed(seen, err == nil)
	}
	return err
}

// committed records what a commit wrote, or pretended to write.
func (w *world) committed(tx *seenTx, stored bool) {
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
	if stored {
		w.broken = append(w.broken, w.fences.judge(tx)...)
	}
}

// seenTx is a transaction that is really carried out. It records the writes, and derives the
// secrets of sessions from the seed, so that derived ids depend on the seed too. A sabotage of the
// fences is carried out here.
type seenTx struct {
	store.Tx
	w       *world
	l       *process
	told    []perdure.Event
	touched []perdure.SessionID
	writes  []fencedWrite
}

// lies reports whether the store accepts writes that a fence of this kind must refuse.
func (s *seenTx) lies(about Sabotage) bool { return s.w.program.Sabotage == about }

// noteWrite notes a write that succeeded.
func (s *seenTx) noteWrite(err error, fw fencedWrite) {
	if err == nil {
		s.writes = append(s.writes, fw)
	}
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

// seenTxCalls overrides a part of one noun.
type seenTxCalls struct {
	store.Calls
	*seenTx
}

func (s *seenTx) Calls() store.Calls { return seenTxCalls{s.Tx.Calls(), s} }

// seenTxWorkers overrides a part of one noun.
type seenTxWorkers struct {
	store.Workers
	*seenTx
}

func (s *seenTx) Workers() store.Workers { return seenTxWorkers{s.Tx.Workers(), s} }

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

func (s seenTxSessions) Acquire(id perdure.SessionID, worker perdure.WorkerID) (store.Session, error) {
	row, err := s.Sessions.Acquire(id, worker)
	s.noteWrite(err, sessionTaken{id, row.Epoch})
	return row, err
}

func (s seenTxSessions) Lock(id perdure.SessionID, epoch int64) (int64, error) {
	last, err := s.Sessions.Lock(id, s.current(id, epoch))
	s.noteWrite(err, sessionLocked{id, epoch})
	return last, err
}

func (s seenTxSessions) Release(id perdure.SessionID, epoch int64) error {
	err := s.Sessions.Release(id, s.current(id, epoch))
	s.noteWrite(err, sessionLocked{id, epoch})
	return err
}

// current returns the epoch with which the store compares: any is current for one that lies.
func (s seenTxSessions) current(id perdure.SessionID, epoch int64) int64 {
	if !s.lies(UnfencedEpochs) {
		return epoch
	}
	row, _ := s.Sessions.Get(id) // the write reports the error
	return row.Epoch
}

func (s seenTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	err := s.Journal.Append(id, events)
	if err == nil {
		s.told = append(s.told, slices.Clone(events)...)
	}
	return err
}

func (s seenTxTasks) Create(t perdure.Task) (perdure.Task, bool, error) {
	stored, created, err := s.Tasks.Create(t)
	if created {
		s.noteWrite(err, taskWritten{task: stored})
	}
	return stored, created, err
}

func (s seenTxTasks) Update(
	id perdure.SessionID, task perdure.TaskID, u perdure.TaskUpdate,
) (perdure.TaskChange, error) {
	change, err := s.Tasks.Update(id, task, u)
	s.touched = append(s.touched, change.Task.Session)
	if change.Answer == perdure.Updated {
		s.noteWrite(err, taskWritten{task: change.Task, update: &u})
	}
	return change, err
}

func (s seenTxCalls) Claim(
	c perdure.Call, live func(perdure.WorkerID) bool,
) (perdure.ClaimOutcome, perdure.Call, error) {
	outcome, row, err := s.Calls.Claim(c, live)
	if outcome == perdure.Claimed {
		s.noteWrite(err, callTaken{key: row.Key, token: row.Token})
	}
	return outcome, row, err
}

func (s seenTxCalls) TakeOver(old, next perdure.Call) error {
	asked := old.Token
	old.Token = s.current(old.Key, old.Token)
	err := s.Calls.TakeOver(old, next)
	s.noteWrite(err, callFenced{old.Key, asked})
	s.noteWrite(err, callTaken{next.Key, next.Token})
	return err
}

func (s seenTxCalls) Bind(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error {
	err := s.Calls.Bind(key, s.current(key, token), task, attempt)
	s.noteWrite(err, callFenced{key, token})
	return err
}

func (s seenTxCalls) Settle(
	key perdure.CallKey, token perdure.Token, state perdure.CallState, r perdure.ToolResult,
) error {
	err := s.Calls.Settle(key, s.current(key, token), state, r)
	s.noteWrite(err, callFenced{key, token})
	return err
}

func (s seenTxCalls) Resolve(next perdure.Call, by string) error {
	err := s.Calls.Resolve(next, by)
	if next.State == perdure.CallRunning {
		s.noteWrite(err, callTaken{next.Key, next.Token})
	}
	return err
}

// current returns the token with which the store compares: any is current for one that lies.
func (s seenTxCalls) current(key perdure.CallKey, token perdure.Token) perdure.Token {
	if !s.lies(UnfencedTokens) {
		return token
	}
	if row, err := s.Calls.Get(key); err == nil {
		return row.Token
	}
	return token
}

func (s seenTxWorkers) UseGrant(work store.Work, by perdure.WorkerID, number int64) error {
	err := s.Workers.UseGrant(work, by, number)
	if errors.Is(err, perdure.Lost) && s.lies(StaleGrants) {
		err = nil
	}
	s.noteWrite(err, grantUsed{work, by, number})
	return err
}
