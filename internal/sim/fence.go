package sim

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
)

// fences knows from the commits alone who owns what, and judges whether a commit was one of an
// owner that had lost its work (GR1, GR2). It trusts neither the rows of the store nor what engines
// read from them.
type fences struct {
	epochs   map[perdure.SessionID]int64
	drivers  map[perdure.SessionID]*process
	tokens   map[perdure.CallKey]perdure.Token
	attempts map[perdure.TaskID]int
	runners  map[perdure.TaskID]perdure.WorkerID
	grants   map[store.Work]grantUsed
}

func newFences() fences {
	return fences{
		epochs: map[perdure.SessionID]int64{}, drivers: map[perdure.SessionID]*process{},
		tokens: map[perdure.CallKey]perdure.Token{}, attempts: map[perdure.TaskID]int{},
		runners: map[perdure.TaskID]perdure.WorkerID{}, grants: map[store.Work]grantUsed{},
	}
}

// fencedWrite is a write of a commit. judge returns the rule that it breaks, and how; empty: none.
// It then notes what follows from the write.
type fencedWrite interface {
	judge(f *fences, tx *seenTx) (rule, text string)
}

// The fenced writes.
type (
	sessionTaken struct {
		id    perdure.SessionID
		epoch int64
	}
	sessionLocked struct {
		id    perdure.SessionID
		epoch int64 // under which the writer believes to be
	}
	callTaken struct {
		key   perdure.CallKey
		token perdure.Token
	}
	callFenced struct {
		key   perdure.CallKey
		token perdure.Token // under which the writer believes to be
	}
	taskWritten struct {
		task   perdure.Task        // as stored
		update *perdure.TaskUpdate // as requested; nil: the task was created
	}
	grantUsed struct {
		work   store.Work
		by     perdure.WorkerID
		number int64
	}
)

// judge judges the writes of a commit, in order, and then its events.
func (f *fences) judge(tx *seenTx) (found []chaos.Violation) {
	for _, write := range tx.writes {
		if rule, text := write.judge(f, tx); rule != "" {
			found = append(found, chaos.Violation{Invariant: rule, Text: fmt.Sprintf("engine %d %s", tx.l.n, text)})
		}
	}
	for _, e := range tx.told {
		if driver := f.drivers[e.Session]; ofDriver(e.Fact) && driver != tx.l {
			found = append(found, chaos.Violation{Invariant: "GR2", Session: e.Session, Text: fmt.Sprintf(
				"engine %d, which does not drive the session, appended %s", tx.l.n, e.Type())})
		}
	}
	return found
}

// ofDriver reports whether only the driver of a session appends such a fact.
func ofDriver(fact perdure.Fact) bool {
	switch fact.(type) {
	case perdure.TurnStarted, perdure.ReasonStarted, perdure.ReasonCompleted, perdure.TurnCompleted:
		return true
	}
	return false
}

// granted reports whether a commit uses a grant of a work.
func (tx *seenTx) granted(session perdure.SessionID, task perdure.TaskID) bool {
	for _, write := range tx.writes {
		if g, ok := write.(grantUsed); ok && g.work.Session == session && g.work.Task == task {
			return true
		}
	}
	return false
}

func (s sessionTaken) judge(f *fences, tx *seenTx) (rule, text string) {
	if tx.l.granted != nil && !tx.granted(s.id, "") {
		rule, text = "GR1", fmt.Sprintf("took session %s without a grant", s.id)
	}
	f.epochs[s.id], f.drivers[s.id] = s.epoch, tx.l
	return rule, text
}

func (s sessionLocked) judge(f *fences, _ *seenTx) (rule, text string) {
	if now := f.epochs[s.id]; s.epoch != now {
		return "GR2", fmt.Sprintf("wrote to session %s under epoch %d, which is at %d", s.id, s.epoch, now)
	}
	return "", ""
}

func (c callTaken) judge(f *fences, _ *seenTx) (rule, text string) {
	f.tokens[c.key] = c.token
	return "", ""
}

func (c callFenced) judge(f *fences, _ *seenTx) (rule, text string) {
	if c.token != f.tokens[c.key] {
		return "GR2", fmt.Sprintf("wrote to call %s under the token of an earlier owner", c.key)
	}
	return "", ""
}

func (t taskWritten) judge(f *fences, tx *seenTx) (rule, text string) {
	id, u := t.task.ID, t.update
	defer func() { f.attempts[id], f.runners[id] = t.task.Attempt, t.task.Worker }()
	if u == nil {
		return "", ""
	}
	if u.Attempt != f.attempts[id] {
		return "GR2", fmt.Sprintf("wrote to task %s under attempt %d, which is at %d", id, u.Attempt, f.attempts[id])
	}
	if tx.l.granted == nil || t.task.Links.ChildSession != "" { // the record of a subagent belongs to nobody
		return "", ""
	}
	mine := tx.l.granted.Worker()
	if u.Worker == mine && f.runners[id] != mine && !tx.granted(t.task.Session, id) {
		return "GR1", fmt.Sprintf("took task %s without a grant", id)
	}
	if owner := f.runners[id]; owner != "" && (u.State == perdure.TaskSucceeded || u.State == perdure.TaskFailed) && !u.Resolve && u.Worker != mine && owner != mine {
		return "GR2", fmt.Sprintf("ended task %s, which worker %s runs, as %s", id, owner, u.State)
	}
	return "", ""
}

func (g grantUsed) judge(f *fences, _ *seenTx) (rule, text string) {
	last := f.grants[g.work]
	if g.number < last.number || g.number == last.number && g.by != last.by {
		return "GR1", fmt.Sprintf("used grant %d of %s %s after grant %d", g.number, g.work.Session, g.work.Task, last.number)
	}
	f.grants[g.work] = g
	return "", ""
}
