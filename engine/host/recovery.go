package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// maxRecoveries is how many dead workers are remembered.
const maxRecoveries = 20

// recoveries remembers what this process took over, by the dead worker that had it.
type recoveries struct {
	mu    sync.Mutex
	began time.Time                       // guarded by mu; when the last pass over the tasks began
	signs map[perdure.WorkerID]workerSign // guarded by mu; of workers whose rows were found
	all   []*recovery                     // guarded by mu; the oldest first
}

// workerSign is what the row of a dead worker says.
type workerSign struct {
	last    time.Time
	crashed bool
}

// recovery is what was taken over from one dead worker.
type recovery struct {
	dead         perdure.WorkerID
	last         time.Time
	began, ended time.Time
	sessions     map[perdure.SessionID]*recoveredSession
}

// recoveredSession is what was taken over in one session. Sessions are kept apart because a caller
// sees those of its own org only.
type recoveredSession struct {
	resumed bool
	tasks   map[perdure.TaskID]core.TakenOver
	calls   map[perdure.CallID]core.TakenOver
}

// passBegins records that a pass looks for work of dead workers.
func (l *recoveries) passBegins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Now().UTC()
}

// found records the row of a dead worker. Only a worker that did not stop in an orderly way leaves
// one.
func (l *recoveries) found(dead perdure.WorkerID, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signs == nil {
		l.signs = map[perdure.WorkerID]workerSign{}
	}
	l.signs[dead] = workerSign{last, true}
}

// of returns what was taken over from a worker in a session. l.mu must be held.
func (l *recoveries) of(dead perdure.WorkerID, session perdure.SessionID, last time.Time) *recoveredSession {
	i := slices.IndexFunc(l.all, func(r *recovery) bool { return r.dead == dead })
	if i < 0 {
		began := l.began
		if began.IsZero() {
			began = time.Now().UTC()
		}
		l.all = append(l.all, &recovery{dead: dead, began: began, sessions: map[perdure.SessionID]*recoveredSession{}})
		if len(l.all) > maxRecoveries {
			delete(l.signs, l.all[0].dead)
			l.all = slices.Delete(l.all, 0, 1)
		}
		i = len(l.all) - 1
	}
	r := l.all[i]
	r.ended = time.Now().UTC()
	if last.After(r.last) {
		r.last = last
	}
	s := r.sessions[session]
	if s == nil {
		s = &recoveredSession{tasks: map[perdure.TaskID]core.TakenOver{}, calls: map[perdure.CallID]core.TakenOver{}}
		r.sessions[session] = s
	}
	return s
}

// takenOver records a task or call. The same one again changes nothing but how it was taken over.
func (l *recoveries) takenOver(done core.TakenOver) {
	if done.Dead == "" { // nobody had it
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(done.Dead, done.Session, done.LastSign)
	if done.Task != "" {
		s.tasks[done.Task] = done
		return
	}
	s.calls[done.Call] = done
}

// resumed records a session that a dead worker drove.
func (l *recoveries) resumed(session perdure.SessionID, left orphan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(left.worker, session, left.lastSign).resumed = true
}

// list returns what is visible: the sessions of which visible is true. unknown reports whether the
// outcome of a task or call is unknown now. The latest comes first.
func (l *recoveries) list(visible func(perdure.SessionID) bool, unknown func(core.TakenOver) bool) []engine.Recovery {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := []engine.Recovery{}
	for _, r := range slices.Backward(l.all) {
		sign := l.signs[r.dead]
		one := engine.Recovery{Crashed: sign.crashed, LastSignAt: r.last, BeganAt: r.began, EndedAt: r.ended,
			Actions: map[perdure.TakeOver]int{}}
		if sign.last.After(one.LastSignAt) {
			one.LastSignAt = sign.last
		}
		any := false
		for id, s := range r.sessions {
			if visible(id) {
				s.addTo(&one, unknown)
				any = true
			}
		}
		if any {
			shown = append(shown, one)
		}
	}
	return shown
}

// addTo adds the numbers of a session.
func (s *recoveredSession) addTo(sum *engine.Recovery, unknown func(core.TakenOver) bool) {
	if s.resumed {
		sum.Sessions++
	}
	sum.Tasks += len(s.tasks)
	sum.Calls += len(s.calls)
	count := func(done core.TakenOver) {
		sum.Actions[done.How]++
		if unknown(done) {
			sum.Unknown++
		}
		if done.How == perdure.TakeOverRunAgain && !done.Class.Repeatable() {
			sum.Repeated++
		}
	}
	for _, done := range s.tasks {
		count(done)
	}
	for _, done := range s.calls {
		count(done)
	}
}

// seen returns the sessions of which something was taken over, and the calls.
func (l *recoveries) seen() (ids []perdure.SessionID, calls []perdure.CallKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.all {
		for id, s := range r.sessions {
			ids = append(ids, id)
			for call := range s.calls {
				calls = append(calls, perdure.CallKey{Session: id, Call: call})
			}
		}
	}
	return ids, calls
}

func (e hostTasks) Recoveries(ctx context.Context) ([]engine.Recovery, error) {
	ids, calls := e.recoveries.seen()
	var own map[perdure.SessionID]bool
	var tasks map[perdure.TaskID]bool    // whose outcome is unknown
	var unknown map[perdure.CallKey]bool // likewise
	err := e.view(ctx, func(r store.Reader) error {
		own, tasks, unknown = map[perdure.SessionID]bool{}, map[perdure.TaskID]bool{}, map[perdure.CallKey]bool{}
		visible := ownSessions(ctx, r)
		for _, id := range ids {
			mine, err := visible(id)
			if err != nil {
				return err
			}
			own[id] = mine
		}
		if len(ids) == 0 {
			return nil
		}
		open, err := r.Tasks().List(store.TaskFilter{States: []perdure.TaskState{perdure.TaskUnknown}})
		if err != nil {
			return err
		}
		for _, t := range open {
			tasks[t.ID] = true
		}
		for _, key := range calls {
			row, err := r.Calls().Get(key)
			if err != nil && !errors.Is(err, perdure.NotFound) {
				return err
			}
			unknown[key] = row.State == perdure.CallUnknown
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list recoveries: %w", err)
	}
	return e.recoveries.list(func(id perdure.SessionID) bool { return own[id] }, func(done core.TakenOver) bool {
		return tasks[done.Task] || unknown[perdure.CallKey{Session: done.Session, Call: done.Call}]
	}), nil
}

// ownSessions returns a function that reports whether a session exists and belongs to the org that
// the engine works for. Without an owner in ctx, all sessions do.
func ownSessions(ctx context.Context, r store.Reader) func(perdure.SessionID) (bool, error) {
	owner, one := engine.OwnerFromContext(ctx)
	known := map[perdure.SessionID]bool{}
	return func(id perdure.SessionID) (bool, error) {
		if mine, asked := known[id]; asked || !one {
			return mine || !one, nil
		}
		row, err := r.Sessions().Get(id)
		if errors.Is(err, perdure.NotFound) {
			err = nil
		}
		known[id] = row.ID != "" && cmp.Or(row.Org, budget.DefaultOrg) == cmp.Or(owner.Org, budget.DefaultOrg)
		return known[id], err
	}
}

// taskStates are the states of a task.
var taskStates = [...]perdure.TaskState{
	perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput, perdure.TaskSucceeded, perdure.TaskFailed,
	perdure.TaskCanceled, perdure.TaskUnknown,
}

func (e hostTasks) Overview(ctx context.Context) (engine.TaskOverview, error) {
	var o engine.TaskOverview
	err := e.view(ctx, func(r store.Reader) error {
		o = engine.TaskOverview{States: map[perdure.TaskState]int{}, Monitors: map[perdure.TaskState]int{},
			HeartbeatMS: e.cfg.Workers.Beat.Milliseconds(), GraceMS: e.cfg.Timing.Grace.Milliseconds()}
		visible := ownSessions(ctx, r)
		for _, state := range taskStates {
			o.States[state], o.Monitors[state] = 0, 0
			counts, err := r.Tasks().Count(state, "")
			if err != nil {
				return err
			}
			for _, c := range counts {
				mine, err := visible(c.Session)
				if err != nil {
					return err
				}
				if mine {
					o.States[state] += c.N
					o.Monitors[state] += c.Monitors
				}
			}
		}
		return nil
	})
	if err != nil {
		return o, fmt.Errorf("count tasks: %w", err)
	}
	return o, nil
}
