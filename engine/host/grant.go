package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
)

// Grant is the right to work on one session or one task. A scheduler outside of the engine counts
// the grants of each, from 1, and the store refuses one after which a later one was used. The zero
// value belongs to an engine that counts none.
type Grant struct {
	Number int64
	// Evict allows to take the work from a worker that is alive by its lease.
	Evict bool
}

// StaleGrant is the error, of kind Lost, of a grant after which a later one was used, or the same
// one by another worker.
var StaleGrant = core.StaleGrant

// Grants is what a scheduler outside of the engine, or a leader, asks of a host. It is safe for
// concurrent use.
type Grants struct{ *Host }

// Grants returns what a scheduler outside of the engine may ask.
func (e *Host) Grants() Grants { return Grants{e} }

// Left says how a session or a task was left by work under a grant. If none of Ended, Waits, Full
// and Home is set, a session waits for new events, and a task has to be run by somebody.
type Left struct {
	Grant   int64          // the last one that was used; the next one is above
	Seq     int64          // of a session's journal, as its driver has read it
	Ended   bool           // the task has ended
	Waits   bool           // the task waits for a person, a schedule or a subagent
	Full    bool           // the task is queued, because there is no slot
	Home    perdure.HomeID // where the work must continue; nothing was taken
	Present bool           // Home is that of the owner, which is alive
}

// Waiting is one page of what waits for a scheduler.
type Waiting struct {
	Sessions []WaitingSession
	Runs     []WaitingRun
	Next     string // where the next page begins; empty: this was the last one
}

// WaitingSession is a session with events that no driver has read, or whose driver is gone or has
// given it up.
type WaitingSession struct {
	ID       perdure.SessionID
	Seq      int64          // of its journal
	Grant    int64          // the last one that was used
	Home     perdure.HomeID // where its files are; empty: it has none, or every process reaches them
	Labels   map[string]string
	Orphaned bool // it has an owner, which is gone or does not drive it
}

// WaitingRun is a queued run that has a slot, or a task whose owner is gone or has given it up.
type WaitingRun struct {
	ID     perdure.TaskID
	Grant  int64          // the last one that was used
	Home   perdure.HomeID // where its remains or the files of its session are; empty: it may run anywhere
	Tool   string
	Labels map[string]string // of its session
}

// RunTask runs a task under a grant until it has ended, waits, or is owned elsewhere, or ctx ends.
// A task that runs in this process already goes on undisturbed, and RunTask waits for it.
//
// StaleGrant: a later grant was used, which Left names. NotFound: no such task.
func (e Grants) RunTask(ctx context.Context, id perdure.TaskID, g Grant) (Left, error) {
	left, err := e.effects.Tasks().Grants().Run(ctx, id, core.Grant(g))
	return Left{Grant: left.Grant, Ended: left.Ended, Waits: left.Waits, Full: left.Full, Home: left.Home,
		Present: left.Present}, err
}

// NoteOwner notes the worker whose session or task is about to be taken, for the report of crash
// recovery, and returns it. If task is empty, it is the worker of the session. The zero value:
// there is none, or it cannot be read.
func (e Grants) NoteOwner(ctx context.Context, id perdure.SessionID, task perdure.TaskID) (w store.Worker) {
	_ = e.cfg.Store.View(ctx, func(r store.Reader) error { // only a report
		var sessions []store.Session
		owner := perdure.WorkerID("")
		if task != "" {
			t, err := r.Tasks().Get("", task)
			if err != nil {
				return err
			}
			owner = t.Worker
		} else {
			row, err := r.Sessions().Get(id)
			if err != nil {
				return err
			}
			owner, sessions = row.Worker, []store.Session{row}
		}
		found, err := r.Workers().Get(owner)
		if err == nil {
			w = found
			e.NoteOrphans(r.Now(), []store.Worker{w}, sessions)
		}
		return err
	})
	return w
}

// UseGrant uses a grant for a session that a driver of this process drives already. StaleGrant: a
// later grant was used. Lost: another worker has the session.
func (e Grants) UseGrant(ctx context.Context, id perdure.SessionID, g Grant) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := tx.Sessions().Get(id)
		if err == nil && row.Worker != "" && row.Worker != e.worker {
			err = fmt.Errorf("%w: worker %s drives it", perdure.Lost, row.Worker)
		}
		if err != nil {
			return err
		}
		return e.effects.UseGrant(tx, core.Grant(g), store.Work{Session: id})
	})
	if err != nil {
		return fmt.Errorf("use grant of session %s: %w", id, err)
	}
	return nil
}

// OwnsSession reports whether the store has this process as the driver of a session: no other one
// has taken it.
func (e Grants) OwnsSession(ctx context.Context, id perdure.SessionID) (bool, error) {
	row, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (store.Session, error) { return r.Sessions().Get(id) })
	return err == nil && row.Worker == e.worker, err
}

// OwnsTask reports whether the store has this process as the worker of a task.
func (e Grants) OwnsTask(ctx context.Context, id perdure.TaskID) (bool, error) {
	t, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (perdure.Task, error) { return r.Tasks().Get("", id) })
	return err == nil && t.State.Live() && t.Worker == e.worker, err
}

// LeftSession reads how a session was left, after its driver ended with err.
func (e Grants) LeftSession(ctx context.Context, id perdure.SessionID, err error) (left Left, failed error) {
	failed = e.cfg.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		row, viewErr := r.Sessions().Get(id)
		if viewErr != nil {
			return viewErr
		}
		left = Left{Seq: row.SeenSeq}
		if left.Grant, viewErr = r.Workers().Granted(store.Work{Session: id}); viewErr != nil {
			return viewErr
		}
		switch {
		case errors.Is(err, OwnedElsewhere):
			left.Present = true
			owner, ownerErr := r.Workers().Get(row.Worker)
			left.Home = owner.Home
			return ownerErr
		case errors.Is(err, AtAnotherHome):
			left.Home, viewErr = e.effects.HomeOfWork(r, row)
		}
		return viewErr
	})
	return left, failed
}

// ForwardCancel forwards a cancel that another process has recorded to the work of the task, if
// that runs in this process.
func (e Grants) ForwardCancel(ctx context.Context, event perdure.Event) {
	if _, asked := event.Fact.(perdure.TaskCancelRequested); asked {
		e.effects.Tasks().Grants().ForwardCancel(ctx, event.Task)
	}
}

// ForwardCancels signals the tasks of a session that run in this process, and whose cancel another
// process has recorded.
func (e Grants) ForwardCancels(ctx context.Context, id perdure.SessionID) error {
	tasks, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Task, error) {
		return r.Tasks().List(store.TaskFilter{Session: id, Worker: e.worker})
	})
	if err != nil {
		return fmt.Errorf("list the tasks of %s: %w", id, err)
	}
	for _, t := range tasks {
		if t.State.Live() && t.CancelRequested() {
			e.effects.Tasks().Grants().ForwardCancel(ctx, t.ID)
		}
	}
	return nil
}

// DetachedHere returns how many calls of a session that left their turns run in this process.
func (e Grants) DetachedHere(id perdure.SessionID) int { return e.effects.Calls().DetachedOf(id) }

// Driven reports whether this process drives a session.
type Driven func(perdure.SessionID) bool

// Due lists what waits for a scheduler: sessions with unread events or a dead driver, queued runs
// with a slot, tasks whose worker is dead, and the sessions and tasks of this process that were
// taken back from it. after is the Next of the last page; the first page has an empty one. limit is
// the number of entries on a page.
func (e Grants) Due(ctx context.Context, here Driven, after string, limit int) (Waiting, error) {
	var page Waiting
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		page = Waiting{}
		if after < "t" { // sessions come first: their positions begin with s
			sessions, err := e.dueSessions(r, here)
			if err != nil {
				return err
			}
			slices.SortFunc(sessions, func(a, b WaitingSession) int { return cmp.Compare(a.ID, b.ID) })
			for _, s := range sessions {
				if "s"+string(s.ID) <= after {
					continue
				}
				if len(page.Sessions) == limit {
					page.Next = "s" + string(page.Sessions[limit-1].ID)
					return nil
				}
				page.Sessions = append(page.Sessions, s)
			}
		}
		tasks, err := e.effects.Tasks().Grants().Due(r, "")
		slices.SortFunc(tasks, func(a, b perdure.Task) int { return cmp.Compare(a.ID, b.ID) })
		for _, t := range tasks {
			if string(t.ID) <= strings.TrimPrefix(after, "t") && strings.HasPrefix(after, "t") {
				continue
			}
			if len(page.Sessions)+len(page.Runs) == limit {
				page.Next = "t"
				if n := len(page.Runs); n > 0 {
					page.Next += string(page.Runs[n-1].ID)
				}
				return nil
			}
			run, err := e.waitingRun(r, t)
			if err != nil {
				return err
			}
			page.Runs = append(page.Runs, run)
		}
		return err
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("list what is due: %w", err)
	}
	return page, nil
}

// DueSession returns a session if it waits for a driver. false: it does not, because its journal
// has nothing new, or because its driver will read it.
func (e Grants) DueSession(ctx context.Context, here Driven, id perdure.SessionID) (w WaitingSession, waits bool, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		row, err := r.Sessions().Get(id)
		if err == nil {
			w, waits, err = e.waitingSession(r, row, here)
		}
		return err
	})
	return w, waits, err
}

// DueRuns returns the queued runs of a session that have a slot, those whose worker is dead, and
// those that were taken back from this process; of every session if id is empty.
func (e Grants) DueRuns(ctx context.Context, id perdure.SessionID) (runs []WaitingRun, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		runs = nil
		tasks, err := e.effects.Tasks().Grants().Due(r, id)
		for _, t := range tasks {
			run, err := e.waitingRun(r, t)
			if err != nil {
				return err
			}
			runs = append(runs, run)
		}
		return err
	})
	return runs, err
}

func (e Grants) dueSessions(r store.Reader, here Driven) (due []WaitingSession, err error) {
	for _, filter := range []store.SessionFilter{{HasDriver: true}, {Unread: true}} {
		rows, err := r.Sessions().List(filter)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			w, waits, err := e.waitingSession(r, row, here)
			if err != nil {
				return nil, err
			}
			if waits {
				due = append(due, w)
			}
		}
	}
	return due, nil
}

func (e Grants) waitingSession(
	r store.Reader, row store.Session, here Driven,
) (w WaitingSession, waits bool, err error) {
	w = WaitingSession{ID: row.ID, Seq: row.LastSeq, Home: homeOfFiles(e.cfg, row), Labels: row.Labels, Orphaned: row.Worker != ""}
	switch row.Worker {
	case "":
		waits = row.Unread()
	case e.worker: // false: it was taken back from this process, and no other one can know that
		waits = !here(row.ID)
	default:
		waits = !e.WorkerAlive(r, row.Worker)
	}
	if waits {
		w.Grant, err = r.Workers().Granted(store.Work{Session: row.ID})
	}
	return w, waits, err
}

func (e Grants) waitingRun(r store.Reader, t perdure.Task) (WaitingRun, error) {
	last, err := r.Workers().Granted(taskrun.WorkOf(t))
	if err != nil {
		return WaitingRun{}, err
	}
	session, err := r.Sessions().Get(t.Session)
	return WaitingRun{
		ID: t.ID, Grant: last, Home: cmp.Or(t.Home, homeOfFiles(e.cfg, session)), Tool: t.Tool, Labels: session.Labels,
	}, err
}
