package chaos

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestWitness breaks the acknowledgements of a client, one after another.
func TestWitness(t *testing.T) {
	t.Parallel()
	told := fixture(t, "background-run")
	last := told.Events[find[perdure.TaskUpdated](t, told)].Fact.(perdure.TaskUpdated).Task
	last.State, last.Summary = perdure.TaskSucceeded, "built"
	call := perdure.Call{Key: perdure.CallKey{Session: told.Session, Call: "call_1"}, State: perdure.CallSettled, Executions: 1}
	words := told.Events[find[perdure.MessageReceived](t, told)].Fact.(perdure.MessageReceived).Message.Text()
	aftermath := func() FinalState {
		return FinalState{Journals: []Journal{{Session: told.Session, Events: slices.Clone(told.Events)}}, Calls: []perdure.Call{call}, Tasks: []perdure.Task{last}}
	}
	for name, c := range map[string]struct {
		harm func(*FinalState)
		log  string
		want string // of the violations; empty: none
	}{
		"nothing":                 {func(*FinalState) {}, "line 1\nline 2\n", ""},
		"another summary":         {func(a *FinalState) { a.Tasks[0].Summary = "failed" }, "line 1\nline 2\n", "task " + string(last.ID)},
		"a task that is gone":     {func(a *FinalState) { a.Tasks = nil }, "line 1\nline 2\n", "task " + string(last.ID)},
		"another end of a call":   {func(a *FinalState) { a.Calls[0].Executions = 2 }, "line 1\nline 2\n", "call call_1"},
		"an event that changed":   {func(a *FinalState) { a.Journals[0].Events[1].At = time.Unix(0, 0).UTC() }, "line 1\nline 2\n", "event 2"},
		"a journal that is short": {func(a *FinalState) { a.Journals[0].Events = a.Journals[0].Events[:2] }, "line 1\nline 2\n", "event 3"},
		"a session that is gone":  {func(a *FinalState) { a.Journals = nil }, "line 1\nline 2\n", "the session was acknowledged"},
		"words that are gone": {func(a *FinalState) {
			a.Journals[0].Events[find[perdure.MessageReceived](t, told)].Fact = perdure.SessionUpdated{}
		}, "line 1\nline 2\n", "is 0 times"},
		"a log with a hole": {func(*FinalState) {}, "line 2\n", "the log of task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w ClientRecord
			w.Acknowledged(told.Session, words)
			w.Tasks([]perdure.Task{last})
			w.Calls([]perdure.Call{call})
			w.Events(told.Session, told.Events)
			w.Log(last.ID, []byte("line 1\nline 2\n"))
			after := aftermath()
			c.harm(&after)

			broken := w.Contradictions(after, func(_ perdure.TaskID, max int) ([]byte, error) { return []byte(c.log)[:min(max, len(c.log))], nil })

			found := slices.ContainsFunc(broken, func(v Violation) bool { return v.Invariant == "I1" && strings.Contains(v.Text, c.want) })
			if (len(broken) == 0) != (c.want == "") || !found && c.want != "" {
				t.Errorf("got %+v, want %q", broken, c.want)
			}
		})
	}
}

func TestWitnessNotesWhatChangesWhileItLooks(t *testing.T) {
	t.Parallel()
	journal := fixture(t, "tool-turn")
	var w ClientRecord
	w.Events(journal.Session, journal.Events)
	other := slices.Clone(journal.Events[:1])
	other[0].Actor = "somebody else"
	w.Events(journal.Session, other)
	w.Events(journal.Session, journal.Events)
	w.RecordMissing(journal.Session, "task_1 is not there")

	broken := w.Contradictions(FinalState{Journals: []Journal{journal}}, func(perdure.TaskID, int) ([]byte, error) { return nil, errors.ErrUnsupported })

	names := []string{}
	for _, v := range broken {
		names = append(names, v.Invariant)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"I1", "I6", "I6"}) {
		t.Errorf("got %+v", broken)
	}
}

func TestCompleteAndMissing(t *testing.T) {
	t.Parallel()
	key := perdure.CallKey{Session: "session_1", Call: "call_1"}
	done := func(tool, args, result string) perdure.Call {
		return perdure.Call{Key: key, Tool: tool, Class: perdure.AtMostOnce, State: perdure.CallSettled, Args: []byte(args), Result: &perdure.ToolResult{Result: []byte(result)}}
	}
	pays, command := done("pay", "{}", "{}"), done("bash", `{"command":"x --effect 'build 7'"}`, `{"exit_code":0}`)

	lines := Complete([]Line{{Call: "call_1", Key: "k"}, {Call: "call_9"}}, []perdure.Call{pays})

	if lines[0].Class != "at_most_once" || lines[0].Effect != EffectOf("pay", key) || lines[1].Class != "" || lines[1].Effect != "call_9" {
		t.Errorf("got %+v", lines)
	}
	writes := func(tool string) bool { return tool == "pay" }
	failed := pays
	failed.Result = &perdure.ToolResult{Error: "no"}
	for name, c := range map[string]struct {
		ledger  []Line
		call    perdure.Call
		missing int
	}{
		"an effect that is there":        {lines, pays, 0},
		"one that is not":                {nil, pays, 1},
		"a call that failed":             {nil, failed, 0},
		"a tool that does not write":     {nil, done("add", "{}", "{}"), 0},
		"a command without its effect":   {nil, command, 1},
		"a command with it":              {[]Line{{Effect: "build 7"}}, command, 0},
		"a command that ended otherwise": {nil, done("bash", string(command.Args), `{"exit_code":1}`), 0},
	} {
		if got := Missing(c.ledger, []perdure.Call{c.call}, writes); len(got) != c.missing {
			t.Errorf("%s: got %+v, want %d", name, got, c.missing)
		}
	}
}

// seconds sets the events of a journal one second apart and returns the time of the first.
func seconds(j Journal) time.Time {
	at := j.Events[0].At
	for i := range j.Events {
		j.Events[i].At = at.Add(time.Duration(i) * time.Second)
	}
	return at
}

// TestRecoveries counts from a start to the first step of recovered work, which is not the message
// of a client.
func TestRecoveries(t *testing.T) {
	t.Parallel()
	run, interrupt := fixture(t, "background-run"), fixture(t, "interrupt")
	at, asked := seconds(run), seconds(interrupt)
	second := 2 + find[perdure.MessageReceived](t, Journal{Events: interrupt.Events[2:]}) // in the middle of a turn
	rested := fixture(t, "tool-turn")
	rested.Events = append(rested.Events, perdure.Event{Seq: int64(len(rested.Events)) + 1, Session: rested.Session, Fact: perdure.SessionActivated{}})
	seconds(rested)
	const moment = 300 * time.Millisecond
	before := func(j Journal, i int) Start { return Start{At: j.Events[i].At.Add(-moment)} }
	for name, c := range map[string]struct {
		journal Journal
		starts  []Start
		want    []time.Duration
	}{
		"a run that goes on":             {run, []Start{{At: at.Add(-time.Second)}, before(run, find[perdure.TaskCreated](t, run)+1)}, []time.Duration{moment}},
		"nothing was there":              {run, []Start{{At: at.Add(-time.Second)}, {At: at.Add(-moment)}}, nil},
		"nothing was left":               {run, []Start{{At: at.Add(-time.Second)}, {At: run.Events[len(run.Events)-1].At.Add(moment)}}, nil},
		"only what came later moves":     {rested, []Start{{At: rested.Events[0].At.Add(-time.Second)}, before(rested, len(rested.Events)-1)}, nil},
		"a client speaks, then it moves": {interrupt, []Start{{At: asked.Add(-time.Second)}, before(interrupt, second)}, []time.Duration{time.Second + moment}},
		"a life in which nothing moves":  {run, []Start{{At: at.Add(-time.Second)}, {At: at.Add(3*time.Second + moment)}, {At: at.Add(3*time.Second + 2*moment)}}, []time.Duration{time.Second - 2*moment}},
	} {
		if took := Recoveries([]Journal{c.journal}, c.starts); !slices.Equal(took, c.want) {
			t.Errorf("%s: got %v, want %v", name, took, c.want)
		}
	}
}
