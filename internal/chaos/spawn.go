package chaos

import (
	"fmt"

	"github.com/perdure/perdure"
)

// SpawnOnce is I9: one call makes at most one task, every task of the model's has the call that asked for it, every call that
// left its turn names a task that is there, and a subagent's session, its parent's task and its handle name each other. One
// handle has one child, and no child is without.
func SpawnOnce(r Record) []Violation {
	b := births{known: map[perdure.SessionID]bool{}, of: map[perdure.CallKey]birth{}}
	for _, journal := range r.Journals {
		b.known[journal.Session] = true
		b.note(journal)
	}
	broken := b.broken
	named := map[perdure.TaskID]perdure.SessionID{}
	for _, journal := range r.Journals {
		s := &spawns{journal: journal, births: b, named: named, asked: map[perdure.CallID]bool{}, made: map[perdure.CallID]perdure.TaskID{}}
		broken = append(broken, s.check()...)
	}
	for key, child := range b.of {
		if b.known[key.Session] && named[child.task] != child.session {
			broken = append(broken, Violation{"I9", child.session, fmt.Sprintf("it is the subagent of task %s, whose child is %q", child.task, named[child.task])})
		}
	}
	for _, rows := range r.Rows {
		broken = append(broken, b.handles(rows)...)
	}
	return sorted(broken)
}

// birth is a subagent as its own journal tells it.
type birth struct {
	session perdure.SessionID
	task    perdure.TaskID
}

// births are all subagents, by the calls that asked for them.
type births struct {
	known  map[perdure.SessionID]bool
	of     map[perdure.CallKey]birth
	broken []Violation
}

func (b *births) note(j Journal) {
	if len(j.Events) == 0 {
		return
	}
	f, ok := j.Events[0].Fact.(perdure.SessionCreated)
	if !ok || f.Lineage == nil {
		return
	}
	key := perdure.CallKey{Session: f.Lineage.Parent, Call: f.Lineage.Call}
	if other, twice := b.of[key]; twice {
		b.broken = append(b.broken, Violation{"I9", j.Session, fmt.Sprintf("call %s has a second child: %s", key, other.session)})
	}
	b.of[key] = birth{session: j.Session, task: f.Lineage.Task}
}

// handles compares the handles of one session with the subagents that there are.
func (b *births) handles(rows Rows) []Violation {
	var broken []Violation
	for _, h := range rows.Handles {
		child := b.of[perdure.CallKey{Session: rows.Session, Call: h.Call}]
		if child.session != h.Child || h.Child != "" && child.task != h.Task {
			broken = append(broken, Violation{"I9", rows.Session, fmt.Sprintf(
				"the handle of call %s has the child %q and the task %q, the journal %q and %q", h.Call, h.Child, h.Task, child.session, child.task,
			)})
		}
	}
	return broken
}

// spawns are the tasks of one session.
type spawns struct {
	journal Journal
	births  births
	named   map[perdure.TaskID]perdure.SessionID // the children that tasks name; of all sessions
	asked   map[perdure.CallID]bool
	made    map[perdure.CallID]perdure.TaskID
	left    []perdure.TaskID // as which calls left their turn
	broken  []Violation
}

func (s *spawns) wrong(format string, args ...any) {
	s.broken = append(s.broken, Violation{"I9", s.journal.Session, fmt.Sprintf(format, args...)})
}

func (s *spawns) check() []Violation {
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
			s.wrong("a call left its turn as task %s, which does not exist", id)
		}
	}
	return s.broken
}

func (s *spawns) create(t perdure.Task) {
	if other, twice := s.made[t.Call]; twice && t.Call != "" {
		s.wrong("call %s has two tasks: %s and %s", t.Call, other, t.ID)
	}
	if t.Call != "" && !s.asked[t.Call] {
		s.wrong("task %s is of call %s, which nobody made", t.ID, t.Call)
	}
	s.made[t.Call] = t.ID
}

// link looks at the subagent that a task names.
func (s *spawns) link(t perdure.Task) {
	child := t.Links.ChildSession
	if child == "" {
		return
	}
	if other := s.named[t.ID]; other != "" && other != child {
		s.wrong("task %s has two children: %s and %s", t.ID, other, child)
	}
	s.named[t.ID] = child
	born := s.births.of[perdure.CallKey{Session: s.journal.Session, Call: t.Call}]
	if s.births.known[child] && (born.session != child || born.task != t.ID) {
		s.wrong("task %s has the child %s, which is another's", t.ID, child)
	}
}
