package chaos

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// fixture reads a journal that an earlier version of the root wrote.
func fixture(t *testing.T, name string) Journal {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "testdata", "journals", "0001-"+name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var j Journal
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		event, err := perdure.DecodeEvent(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		j.Session = event.Session
		j.Events = append(j.Events, event)
	}
	if len(j.Events) == 0 {
		t.Fatalf("%s is empty: %v", name, lines.Err())
	}
	return j
}

// number renumbers the events after one was removed or inserted.
func number(j Journal) Journal {
	j.Events = slices.Clone(j.Events)
	for i := range j.Events {
		j.Events[i].Seq = int64(i) + 1
	}
	return j
}

// find returns the index of the first event with a fact of type T.
func find[T perdure.Fact](t *testing.T, j Journal) int {
	t.Helper()
	for i, e := range j.Events {
		if _, ok := e.Fact.(T); ok {
			return i
		}
	}
	t.Fatalf("no such fact in the journal")
	return 0
}

// ending returns the index of the event that ends the task of a journal.
func ending(t *testing.T, j Journal) int {
	t.Helper()
	for i, e := range j.Events {
		if f, ok := e.Fact.(perdure.TaskUpdated); ok && f.Task.State.Terminal() {
			return i
		}
	}
	t.Fatal("no task of the journal has ended")
	return 0
}

// broken lists the invariants that a record violates, each once.
func broken(r Record) []string {
	var names []string
	for _, v := range Check(r) {
		if !slices.Contains(names, v.Invariant) {
			names = append(names, v.Invariant)
		}
	}
	return names
}

func TestWholeJournalsBreakNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tool-turn", "background-run", "interrupt", "unknown-outcome", "provider-error"} {
		if v := Check(Record{Journals: []Journal{fixture(t, name)}}); len(v) != 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestInvariantsCanFail breaks each promise on purpose: a check that cannot fail proves nothing.
func TestInvariantsCanFail(t *testing.T) {
	t.Parallel()
	run, turn := fixture(t, "background-run"), fixture(t, "tool-turn")
	delivered, completed := find[perdure.TaskDelivered](t, run), find[perdure.ToolCompleted](t, turn)
	without := func(j Journal, i int) Journal {
		j.Events = slices.Delete(slices.Clone(j.Events), i, i+1)
		return j
	}
	twice := func(j Journal, i int) Journal {
		j.Events = slices.Insert(slices.Clone(j.Events), i, j.Events[i])
		return number(j)
	}
	changed := run // the task ends twice, with different results
	changed.Events = slices.Clone(run.Events)
	end := changed.Events[ending(t, run)]
	f := end.Fact.(perdure.TaskUpdated)
	f.Task.Summary = "something else"
	end.Fact = f
	changed.Events = append(changed.Events, end)
	for _, c := range []struct {
		name   string
		record Record
		want   string
	}{
		{"a result that changes", Record{Journals: []Journal{number(changed)}}, "I5"},
		{"an at_most_once effect twice", Record{Ledger: []Line{{Effect: "charge 1", Class: "at_most_once"}, {Effect: "charge 1", Class: "at_most_once"}}}, "I2"},
		{"an idempotent effect under two keys", Record{Ledger: []Line{{Effect: "label 1", Class: "idempotent", Key: "a"}, {Effect: "label 1", Class: "idempotent", Key: "b"}}}, "I3"},
		{"a turn that does not end", Record{Journals: []Journal{{Session: turn.Session, Events: turn.Events[:len(turn.Events)-2]}}}, "I4"},
		{"a call that completes twice", Record{Journals: []Journal{twice(turn, completed)}}, "I5"},
		{"a gap in the journal", Record{Journals: []Journal{without(turn, completed)}}, "I6"},
		{"a result that never comes home", Record{Journals: []Journal{number(without(run, delivered))}}, "I16"},
		{"a result that comes home twice", Record{Journals: []Journal{twice(run, delivered)}}, "I16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := broken(c.record); !slices.Contains(got, c.want) {
				t.Errorf("breaks %v, want %s among them", got, c.want)
			}
			if rep := Evaluate(c.record, Run{}); rep.OK {
				t.Error("the verdict is ok")
			}
		})
	}
}

func TestUnpaired(t *testing.T) { // I17
	t.Parallel()
	asks := perdure.Message{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: "a"}}}}
	result := perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &perdure.ToolResult{CallID: "a"}}}}
	says := perdure.Message{Role: perdure.RoleAgent, Parts: perdure.Text("x").Parts}
	for name, c := range map[string]struct {
		transcript []perdure.Message
		whole      bool
	}{
		"one result":       {[]perdure.Message{asks, result, says}, true},
		"no result":        {[]perdure.Message{asks}, false},
		"a late result":    {[]perdure.Message{asks, says, result}, false},
		"two results":      {[]perdure.Message{asks, result, result}, false},
		"a result of none": {[]perdure.Message{result}, false},
	} {
		if text := Unpaired(c.transcript); (text == "") != c.whole {
			t.Errorf("%s: got %q", name, text)
		}
	}
}

func TestJudgeCountsWhatIsMissingAndLost(t *testing.T) {
	t.Parallel()
	run, unknown := fixture(t, "background-run"), fixture(t, "unknown-outcome")
	tool := unknown.Events[find[perdure.ToolUnknown](t, unknown)].Fact.(perdure.ToolUnknown).Name
	task := run.Events[find[perdure.TaskCreated](t, run)].Task

	missing := Evaluate(Record{Journals: []Journal{run}, Expected: []Order{{Session: run.Session, Tool: "charge", Effect: "charge 1"}}}, Run{})
	excused := Evaluate(Record{Journals: []Journal{unknown}, Expected: []Order{{Session: unknown.Session, Tool: tool, Effect: "x"}}}, Run{})
	lost := Evaluate(Record{Journals: []Journal{run}}, Run{Known: map[perdure.TaskID]string{task: "succeeded something else"}})

	if missing.EffectsMissing != 1 || missing.OK {
		t.Errorf("missing: got %+v", missing)
	}
	if excused.EffectsMissing != 0 || excused.Unknown == 0 {
		t.Errorf("an effect that is reported unknown is not missing: got %+v", excused)
	}
	if lost.LostSettled != 1 || lost.OK {
		t.Errorf("lost: got %+v", lost)
	}
}

func TestReadLedger(t *testing.T) {
	t.Parallel()
	const line = `{"effect":"a","class":"pure"}` + "\n"
	for name, c := range map[string]struct {
		text  string
		lines int
		err   string
	}{
		"two lines":                {line + line, 2, ""},
		"a last line cut in half":  {line + line[:10], 1, ""},
		"a broken line before one": {"nonsense\n" + line, 0, "line 1"},
		"nothing":                  {"", 0, ""},
	} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		lines, err := ReadLedger(path)
		if len(lines) != c.lines || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %d lines, %v", name, len(lines), err)
		}
	}
	if lines, err := ReadLedger(filepath.Join(t.TempDir(), "absent")); lines != nil || err != nil {
		t.Errorf("a ledger that is not there: got %v, %v", lines, err)
	}
}

func TestDeliveriesThatStartNoTurn(t *testing.T) { // DL6
	t.Parallel()
	ended := func(wake perdure.Wake) perdure.Event {
		return perdure.Event{Fact: perdure.TaskUpdated{Task: perdure.Task{ID: "task_1", State: perdure.TaskCanceled, Delivery: perdure.ToLoop, Wake: wake}}}
	}
	asked := func(attempt int) perdure.Event { return perdure.Event{Fact: perdure.ReasonStarted{Attempt: attempt}} }
	home := perdure.Event{Fact: perdure.TaskDelivered{TaskIDs: []perdure.TaskID{"task_1"}}}
	for name, c := range map[string]struct {
		events []perdure.Event
		whole  bool
	}{
		"it starts one and does not come":      {[]perdure.Event{ended(perdure.WakeContinue)}, false},
		"no turn comes":                        {[]perdure.Event{ended(perdure.WakeNotify)}, true},
		"the model is only asked once more":    {[]perdure.Event{ended(perdure.WakeNotify), asked(2)}, true},
		"the model is asked without it":        {[]perdure.Event{ended(perdure.WakeNotify), asked(1)}, false},
		"it comes with the next turn":          {[]perdure.Event{ended(perdure.WakeNotify), home, asked(1)}, true},
		"it comes twice":                       {[]perdure.Event{ended(perdure.WakeNotify), home, home, asked(1)}, false},
		"it comes twice, and nobody was asked": {[]perdure.Event{ended(perdure.WakeNone), home, home}, false},
	} {
		if broken := DeliveredOnce(Record{Journals: []Journal{{Events: c.events}}}); (len(broken) == 0) != c.whole {
			t.Errorf("%s: got %+v", name, broken)
		}
	}
}

func TestAStoppedSubagentIsNotStuck(t *testing.T) { // SA11
	t.Parallel()
	events := []perdure.Event{
		{Seq: 1, Fact: perdure.SessionCreated{}}, {Seq: 2, Fact: perdure.MessageReceived{Message: perdure.Text("do"), Source: "parent"}},
	}
	stopped := append(slices.Clone(events), perdure.Event{Seq: 3, Fact: perdure.SessionStopped{By: "user"}})
	if broken := NoStuck(Record{Journals: []Journal{{Events: events}}}); len(broken) != 1 {
		t.Errorf("a message that waits: got %+v", broken)
	}
	if broken := NoStuck(Record{Journals: []Journal{{Events: stopped}}}); len(broken) != 0 {
		t.Errorf("of a stopped one: got %+v", broken)
	}
}

func TestASessionHeldByABudgetIsNotStuck(t *testing.T) { // BU3
	t.Parallel()
	queued := []perdure.Event{
		{Seq: 1, Fact: perdure.SessionCreated{}}, {Seq: 2, Fact: perdure.MessageReceived{Message: perdure.Text("do"), Source: "parent"}},
	}
	notice := perdure.BudgetNotice{Why: "max_cost: spent"}
	given := perdure.Event{Seq: 4, Fact: perdure.BudgetResumed{By: "user"}}
	for name, held := range map[string]perdure.Fact{
		"its hard limit": perdure.BudgetExhausted{BudgetNotice: notice}, "its soft limit": perdure.BudgetPaused{BudgetNotice: notice},
	} {
		events := append(slices.Clone(queued), perdure.Event{Seq: 3, Fact: held})
		if broken := NoStuck(Record{Journals: []Journal{{Events: events}}}); len(broken) != 0 {
			t.Errorf("%s: its message waits until somebody gives more, and got %+v", name, broken)
		}
		if broken := NoStuck(Record{Journals: []Journal{{Events: append(events, given)}}}); len(broken) != 1 {
			t.Errorf("%s: more was given, and the message waits: got %+v", name, broken)
		}
	}
}
