package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestStepsCanFail breaks each promise about steps, spawns, cancels and acknowledged requests on
// purpose, and checks that a correct record has no violation.
func TestStepsCanFail(t *testing.T) {
	t.Parallel()
	run, turn := fixture(t, "background-run"), fixture(t, "tool-turn")
	created := run.Events[find[perdure.TaskCreated](t, run)].Fact.(perdure.TaskCreated).Task
	ended := run.Events[ending(t, run)].Fact.(perdure.TaskUpdated).Task
	done := turn.Events[find[perdure.ToolCompleted](t, turn)]
	later := done.At.Add(time.Second)
	with := func(j Journal, facts ...perdure.Fact) Journal {
		j.Events = slices.Clone(j.Events)
		last := j.Events[len(j.Events)-1]
		for _, f := range facts {
			j.Events = append(j.Events, perdure.Event{ID: "event", Seq: last.Seq, At: last.At.Add(time.Hour), Session: j.Session, Task: created.ID, Fact: f})
		}
		return number(j)
	}
	body, err := perdure.EncodeEvent(turn.Events[1])
	if err != nil {
		t.Fatal(err)
	}
	canceled := ended
	canceled.CancelRequestedAt = ended.CreatedAt
	late := ended // an hour after its cancel, which comes an hour after the last event of the journal
	late.FinishedAt = run.Events[len(run.Events)-1].At.Add(2 * time.Hour)
	second := created
	second.ID, second.Call = "task_00000000000000000000000000000009", "call_nobody"
	for _, c := range []struct {
		name   string
		record Record
		want   string // empty: no violation
	}{
		{"an event that was shown and stands there", Record{Journals: []Journal{turn}, Responses: []Response{{Session: turn.Session, Event: body}}}, ""},
		{"an event that was shown and is gone", Record{Journals: []Journal{turn}, Responses: []Response{{Session: turn.Session, Event: []byte("{}")}}}, "I1"},
		{"a message that was acknowledged and is gone", Record{Journals: []Journal{turn}, Responses: []Response{{Session: turn.Session, Message: "message_x"}}}, "I1"},
		{"a cancel that was acknowledged and is gone", Record{Journals: []Journal{turn}, Responses: []Response{{Session: turn.Session, Cancel: "task_x"}}}, "I1"},
		{"a result that was shown and is another", Record{Journals: []Journal{run}, Responses: []Response{{Session: run.Session, Task: &created}}, Live: true}, ""},
		{"two calls with one key", Record{Ledger: []Line{{Effect: "a", Call: "a", Key: "k"}, {Effect: "b", Call: "b", Key: "k"}}}, "I3"},
		{"a row that the journal does not have", Record{Journals: []Journal{turn}, Rows: []Rows{{Session: turn.Session, LastSeq: int64(len(turn.Events)) + 1}}}, "I6"},
		{"a call that runs in the ledger for ever", Record{Rows: []Rows{{Calls: []perdure.Call{{State: perdure.CallRunning}}}}}, "I4"},
		{"an effect of a paused worker after the result", Record{Zombies: true, Journals: []Journal{turn}, Ledger: []Line{{Effect: "x", Session: turn.Session, Call: string(done.Call), At: later}}}, ""},
		{"an effect after the result", Record{Journals: []Journal{turn}, Ledger: []Line{{Effect: "x", Session: turn.Session, Call: string(done.Call), At: later}}}, "I8"},
		{"an effect before the result", Record{Journals: []Journal{turn}, Ledger: []Line{{Effect: "x", Session: turn.Session, Call: string(done.Call), At: done.At}}}, ""},
		{"a step of the model that is left out", Record{Live: true, Journals: []Journal{with(turn, perdure.TurnStarted{TurnID: "turn"}, perdure.ReasonStarted{Iteration: 2, Attempt: 1})}}, "I8"},
		{"a task of a call that nobody made", Record{Live: true, Journals: []Journal{with(run, perdure.TaskCreated{Task: second})}}, "I9"},
		{"a process after the end", Record{Live: true, Journals: []Journal{run}, Samples: []Process{{Task: ended.ID, At: ended.FinishedAt.Add(time.Second)}}}, "I13"},
		{"a process before the end", Record{Live: true, Journals: []Journal{run}, Samples: []Process{{Task: ended.ID, At: ended.FinishedAt}}}, ""},
		{"a cancel that is young", Record{CancelBound: time.Second, Live: true, Journals: []Journal{with(run, perdure.TaskCancelRequested{}, perdure.DeliveryHeld{}), {}}}, ""},
		{"a cancel that nobody heeds", Record{CancelBound: time.Minute, Live: true, Journals: []Journal{with(with(run, perdure.TaskCancelRequested{}), perdure.DeliveryHeld{})}}, "I14"},
		{"a cancel within its bound", Record{CancelBound: 2 * time.Hour, Live: true, Journals: []Journal{with(with(run, perdure.TaskCancelRequested{}), perdure.DeliveryHeld{})}}, ""},
		{"a cancel that takes too long", Record{CancelBound: time.Minute, Live: true, Journals: []Journal{with(with(run, perdure.TaskCancelRequested{}), perdure.TaskUpdated{Task: late})}}, "I14"},
		{"a cancel without a bound", Record{Live: true, Journals: []Journal{with(with(run, perdure.TaskCancelRequested{}), perdure.TaskUpdated{Task: late})}}, ""},
		{"a cancel that never ends", Record{Journals: []Journal{with(run, perdure.TaskCancelRequested{})}}, "I14"},
		{"an effect after a cancel", Record{Live: true, Journals: []Journal{with(run, perdure.TaskUpdated{Task: canceled})}, Ledger: []Line{{Effect: "x", Task: ended.ID, At: ended.FinishedAt.Add(time.Second)}}}, "I14"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := broken(c.record)
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
				t.Errorf("breaks %v, want %q among them: %+v", got, c.want, Check(c.record))
			}
		})
	}
}
