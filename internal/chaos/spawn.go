package chaos

import (
	"fmt"

	"github.com/perdure/perdure"
)

// SpawnOnce is I9: a call creates at most one task; every task of the model belongs to an existing
// call; every detached call names an existing task; and the session of a subagent, its parent's
// task and its handle refer to each other. A handle has one child, and every child has a handle.
func SpawnOnce(r Record) []Violation {
	b := subagents{known: map[perdure.SessionID]bool{}, of: map[perdure.CallKey]subagent{}}
	for _, journal := range r.Journals {
		b.known[journal.Session] = true
		b.note(journal)
	}
	broken := b.broken
	named := map[perdure.TaskID]perdure.SessionID{}
	for _, journal := range r.Journals {
		s := &spawnChecker{journal: journal, subagents: b, named: named, asked: map[perdure.CallID]bool{},
			made: map[perdure.CallID]perdure.TaskID{}}
		broken = append(broken, s.check()...)
	}
	for key, child := range b.of {
		if b.known[key.Session] && named[child.task] != child.session {
			broken = append(broken,
				Violation{"I9", child.session,
					fmt.Sprintf("it is the subagent of task %s, whose child is %q", child.task, named[child.task])})
		}
	}
	for _, rows := range r.Rows {
		broken = append(broken, b.handles(rows)...)
	}
	return sorted(broken)
}

// subagent is a subagent as its own journal describes it.
type subagent struct {
	session perdure.SessionID
	task    perdure.TaskID
}

// subagents are all subagents, by the calls that requested them.
type subagents struct {
	known  map[perdure.SessionID]bool
	of     map[perdure.CallKey]subagent
	broken []Violation
}

func (b *subagents) note(j Journal) {
	if len(j.Events) == 0 {
		return
	}
	f, ok := j.Events[0].Fact.(perdure.SessionCreated)
	if !ok || f.Lineage == nil {
		return
	}
	key := perdure.CallKey{Session: f.Lineage.Parent, Call: f.Lineage.Call}
	if other, twice := b.of[key]; twice {
		b.broken = append(b.broken,
			Violation{"I9", j.Session, fmt.Sprintf("call %s has a second child: %s", key, other.session)})
	}
	b.of[key] = subagent{session: j.Session, task: f.Lineage.Task}
}

// handles compares the handles of a session with the existing subagents.
func (b *subagents) handles(rows Rows) []Violation {
	var broken []Violation
	for _, h := range rows.Handles {
		child := b.of[perdure.CallKey{Session: rows.Session, Call: h.Call}]
		if child.session != h.Child || h.Child != "" && child.task != h.Task {
			broken = append(broken, Violation{"I9", rows.Session, fmt.Sprintf(
				"the handle of call %s has the child %q and the task %q, but the journal has %q and %q", h.Call,
				h.Child, h.Task, child.session, child.task,
			)})
		}
	}
	return broken
}

// spawnChecker are the tasks of one session.
type spawnChecker struct {
	journal   Journal
	subagents subagents
	named     map[perdure.TaskID]perdure.SessionID // the children of tasks, of all sessions
	asked     map[perdure.CallID]bool
	made      map[perdure.CallID]perdure.TaskID
	left      []perdure.TaskID // tasks of detached calls
	broken    []Violation
}

func (s *spawnChecker) wrong(format string, args ...any) {
	s.broken = append(s.broken, Violation{"I9", s.journal.Session, fmt.Sprintf(format, args...)})
}

func (s *spawnChecker) check() []Violation {
	for _, event := range s.journal.Events {
		switch f := event.Fact.(type) {
		case perdure.OutputCompleted:
			for _, call := range f.Message.Calls() {
				s.asked[call.ID] = true
			}
		case perdure.ToolDetached:
			s.left = append(s.left, f.TaskID)
		case perdure.TaskCreated:
			s.create(f.Task)
			s.link(f.Task)
		case perdure.TaskUpdated:
			s.link(f.Task)
		}
	}
	tasks := map[perdure.TaskID]bool{}
	for _, id := range s.made {
		tasks[id] = true
	}
	for _, id := range s.left {
		if !tasks[id] {
			s.wrong("a call was detached as task %s, which does not exist", id)
		}
	}
	return s.broken
}

func (s *spawnChecker) create(t perdure.Task) {
	if other, twice := s.made[t.Call]; twice && t.Call != "" {
		s.wrong("call %s has two tasks: %s and %s", t.Call, other, t.ID)
	}
	if t.Call != "" && !s.asked[t.Call] {
		s.wrong("task %s belongs to call %s, which does not exist", t.ID, t.Call)
	}
	s.made[t.Call] = t.ID
}

// link checks the subagent of a task.
func (s *spawnChecker) link(t perdure.Task) {
	child := t.Links.ChildSession
	if child == "" {
		return
	}
	if other := s.named[t.ID]; other != "" && other != child {
		s.wrong("task %s has two children: %s and %s", t.ID, other, child)
	}
	s.named[t.ID] = child
	born := s.subagents.of[perdure.CallKey{Session: s.journal.Session, Call: t.Call}]
	if s.subagents.known[child] && (born.session != child || born.task != t.ID) {
		s.wrong("task %s has the child %s, which belongs to another task", t.ID, child)
	}
}
