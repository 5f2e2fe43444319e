package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestSpawnsCanFail violates I9 in every way in which a subagent, its parent's task and its handle
// can disagree.
func TestSpawnsCanFail(t *testing.T) {
	t.Parallel()
	task := perdure.Task{ID: "task_1", Session: "parent", Kind: perdure.KindSubagent, Call: "c1", Links: perdure.Links{ChildSession: "child"}}
	bare := task
	bare.Links = perdure.Links{}
	other := task
	other.Links.ChildSession = "other"
	of := func(id perdure.SessionID, facts ...perdure.Fact) Journal {
		j := Journal{Session: id}
		for i, f := range facts {
			j.Events = append(j.Events, perdure.Event{ID: "event", Seq: int64(i) + 1, At: time.Unix(1, 0), Session: id, Fact: f})
		}
		return j
	}
	asks := perdure.OutputCompleted{Message: perdure.Message{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: "c1"}}}}}
	parent := of("parent", perdure.SessionCreated{}, asks, perdure.TaskCreated{Task: task})
	born := func(id perdure.SessionID, call perdure.CallID, of perdure.TaskID) perdure.SessionCreated {
		return perdure.SessionCreated{Lineage: &perdure.Lineage{Parent: "parent", Root: "parent", Call: call, Task: of}}
	}
	child := of("child", born("child", "c1", "task_1"))
	handles := func(h ...Handle) []Rows { return []Rows{{Session: "parent", Handles: h}} }
	whole := Handle{Call: "c1", Task: "task_1", Child: "child"}
	for _, c := range []struct {
		name   string
		record Record
		broken bool
	}{
		{"all agree", Record{Journals: []Journal{parent, child}, Rows: handles(whole)}, false},
		{"the child's journal is not part of the record", Record{Journals: []Journal{parent}}, false},
		{"the parent's journal is not part of the record", Record{Journals: []Journal{child}}, false},
		{"the task is linked later", Record{Journals: []Journal{of("parent", perdure.SessionCreated{}, asks, perdure.TaskCreated{Task: bare}, perdure.TaskUpdated{Task: task}), child}}, false},
		{"a second child of the call", Record{Journals: []Journal{parent, child, of("other", born("other", "c1", "task_1"))}}, true},
		{"a child of another task", Record{Journals: []Journal{parent, of("child", born("child", "c1", "task_2"))}}, true},
		{"a child of another call", Record{Journals: []Journal{parent, of("child", born("child", "c2", "task_1"))}}, true},
		{"a child that is nobody's", Record{Journals: []Journal{parent, of("child", perdure.SessionCreated{})}}, true},
		{"a task that names no child", Record{Journals: []Journal{of("parent", perdure.SessionCreated{}, asks, perdure.TaskCreated{Task: bare}), child}}, true},
		{"a task whose child changes", Record{Journals: []Journal{of("parent", perdure.SessionCreated{}, asks, perdure.TaskCreated{Task: task}, perdure.TaskUpdated{Task: other})}}, true},
		{"a child without a parent's task", Record{Journals: []Journal{of("parent", perdure.SessionCreated{}), child}}, true},
		{"a handle without its child", Record{Journals: []Journal{of("parent", perdure.SessionCreated{})}, Rows: handles(whole)}, true},
		{"a handle that has not got its child", Record{Journals: []Journal{parent, child}, Rows: handles(Handle{Call: "c1", Task: "task_1"})}, true},
		{"a handle of another task", Record{Journals: []Journal{parent, child}, Rows: handles(Handle{Call: "c1", Task: "task_2", Child: "child"})}, true},
		{"a handle that waits for its child", Record{Journals: []Journal{of("parent", perdure.SessionCreated{})}, Rows: handles(Handle{Call: "c1", Task: "task_1"})}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if v := SpawnOnce(c.record); len(v) > 0 != c.broken {
				t.Errorf("got %+v", v)
			}
		})
	}
	if v := NoStuck(Record{Rows: handles(whole)}); len(v) != 1 {
		t.Errorf("a subagent without an outcome at the end: got %+v", v)
	}
}

// TestRerunsOfACallThatLeft: the effect of a call before its detachment belongs to the call, not to
// its task, but counts as an execution of the task.
func TestRerunsOfACallThatLeft(t *testing.T) {
	t.Parallel()
	j := Journal{Session: "s", Events: []perdure.Event{{Task: "task_1", Fact: perdure.TaskResolved{Answer: perdure.ResolveRunAgain}}}}
	line := Line{Effect: "charge 1", Class: "at_most_once", Session: "s"}
	again := line
	again.Task = "task_1"
	for n, lines := range [][]Line{{line}, {line, again}, {line, again, again}} {
		v := NoDuplicateEffect(Record{Journals: []Journal{j}, Ledger: lines})
		if len(v) > 0 != (n == 2) {
			t.Errorf("%d effects: got %+v", n+1, v)
		}
	}
	if v := NoDuplicateEffect(Record{Ledger: slices.Repeat([]Line{line}, 2)}); len(v) == 0 {
		t.Error("nobody let it run again")
	}
}
