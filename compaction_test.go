package perdure_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// openTask is a task that was created as the nth.
func openTask(n int, state perdure.TaskState) perdure.Task {
	return perdure.Task{
		ID: perdure.TaskID(fmt.Sprintf("task_%032d", n)), Run: perdure.RunID(fmt.Sprintf("bg_%032d", n)), Tool: "slow_tool", State: state,
		Lane: perdure.Background, Delivered: perdure.NotDelivered, CreatedAt: time.Unix(int64(n), 0),
	}
}

func TestOpenTasksBlock(t *testing.T) { // DL13
	t.Parallel()
	asking, delivered, inside, agent := openTask(3, perdure.TaskAwaitingInput), openTask(4, perdure.TaskSucceeded),
		openTask(5, perdure.TaskRunning), openTask(6, perdure.TaskQueued)
	asking.InputRequest = &perdure.InputRequest{ID: "req_1", Kind: "question", Prompt: "Which one?"}
	delivered.Delivered, inside.Lane = perdure.DeliveredRead, perdure.Foreground
	agent.Run, agent.Kind, agent.Tool = "", perdure.KindSubagent, "spawn_agent"

	got := perdure.OpenTasksText([]perdure.Task{openTask(1, perdure.TaskUnknown), openTask(2, perdure.TaskRunning), asking, delivered, inside, agent})

	want := `Open background tasks:
- task_00000000000000000000000000000002 (bg_00000000000000000000000000000002) slow_tool: running
- task_00000000000000000000000000000003 (bg_00000000000000000000000000000003) slow_tool: awaiting_input for req_1
- task_00000000000000000000000000000006 spawn_agent: queued
- task_00000000000000000000000000000001 (bg_00000000000000000000000000000001) slow_tool: unknown, not read yet`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if none := perdure.OpenTasksText([]perdure.Task{delivered}); none != "" {
		t.Errorf("nothing is open: got %q", none)
	}
	for n, want := range map[int]string{19: "", 20: "- and 2 more: call list_tasks", 200: "- and 182 more: call list_tasks"} {
		var tasks []perdure.Task
		for i := range n {
			tasks = append(tasks, openTask(i, perdure.TaskRunning))
		}
		lines := strings.Split(perdure.OpenTasksText(tasks), "\n")
		if last := lines[len(lines)-1]; len(lines) != 20 || want != "" && last != want || want == "" && !strings.Contains(last, string(tasks[n-1].ID)) {
			t.Errorf("of %d tasks: got %d lines, the last %q, want 20 and %q", n, len(lines), last, want)
		}
	}
}

// longTalk is a session in which so many questions were answered, each with one tool result of so
// many bytes.
func longTalk(t *testing.T, turns, bytes int, agent perdure.Agent) *simulator {
	t.Helper()
	w := newSimulator(t, agent)
	w.sample = 100
	for i := range turns {
		w.receive(fmt.Sprintf("question %d", i), "")
		w.wake()
		w.settle(w.answer("", call(perdure.CallID(fmt.Sprintf("call_%d", i))))...)
		for _, run := range w.runs() {
			w.settle(done(run.Call, `"`+strings.Repeat("x", bytes)+`"`))
		}
		w.settle(w.answer("an answer")...)
	}
	return w
}

// paired reports whether every result stands behind its call.
func paired(messages []perdure.Message) error {
	asked := map[perdure.CallID]bool{}
	for i, m := range messages {
		for _, c := range m.Calls() {
			asked[c.ID] = true
		}
		for _, p := range m.Parts {
			if p.Result == nil {
				continue
			}
			if !asked[p.Result.CallID] {
				return fmt.Errorf("message %d: the result of %s has no call", i, p.Result.CallID)
			}
			delete(asked, p.Result.CallID)
		}
	}
	if len(asked) > 0 {
		return fmt.Errorf("calls without results: %v", asked)
	}
	return nil
}

func TestCompactionKeepsCallsWithTheirResults(t *testing.T) { // TN23, DL13
	t.Parallel()
	for _, c := range []struct {
		name         string
		turns, bytes int
		most         int
		strategy     string
	}{
		{name: "masks", turns: 12, bytes: 4000, most: 4000, strategy: "mask"},
		{name: "drops", turns: 60, bytes: 400, most: 2000, strategy: "drop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := longTalk(t, c.turns, c.bytes, perdure.Agent{MaxContextTokens: c.most})
			s := w.session

			var compactions []perdure.ContextCompacted
			for _, e := range w.events {
				if f, ok := e.Fact.(perdure.ContextCompacted); ok {
					compactions = append(compactions, f)
				}
			}
			if len(compactions) == 0 || compactions[len(compactions)-1].Strategy != c.strategy || compactions[0].After >= compactions[0].Before {
				t.Fatalf("recorded %+v", compactions)
			}
			shown := s.Context()
			if err := paired(shown); err != nil {
				t.Error(err)
			}
			if shown[0].Text() != "question 0" || shown[len(shown)-1].Role != s.Transcript[len(s.Transcript)-1].Role {
				t.Errorf("the first input and the last message must stay: %q … %q", shown[0].Text(), shown[len(shown)-1].Role)
			}
			size, _ := json.Marshal(shown)
			if len(size)/4 > 2*c.most {
				t.Errorf("%d bytes are shown", len(size))
			}
			if len(s.Transcript) < 3*c.turns {
				t.Errorf("the transcript has %d messages: it must stay whole", len(s.Transcript))
			}
			if c.strategy == "drop" && !slices.ContainsFunc(shown, func(m perdure.Message) bool {
				return m.Role == perdure.RoleNotification && strings.Contains(m.Text(), "earlier messages are left out")
			}) {
				t.Error("nothing says that messages are left out")
			}
		})
	}
}

func TestTooLargeIsCompactedOnce(t *testing.T) { // TN23
	t.Parallel()
	w := longTalk(t, 10, 4000, perdure.Agent{})
	w.receive("one more", "")
	w.wake()
	n := len(w.journal)

	w.settle(w.failure(perdure.CodeTooLarge, false)...)

	wantTypes(t, w.since(n), "llm.generation", "reason.completed", "context.compacted", "reason.started")
	if _, ok := w.model(); !ok {
		t.Fatalf("it is not asked again: %+v", w.due)
	}
	w.settle(w.failure(perdure.CodeTooLarge, false)...)
	if f := last[perdure.TurnFailed](t, w); f.Code != perdure.CodeTooLarge {
		t.Errorf("got %+v, want the turn to fail the second time", f)
	}
}

// summing returns the summary that is due, or nothing.
func summing(w *simulator) (perdure.SummariseContext, bool) {
	for _, command := range w.due {
		if c, ok := command.(perdure.SummariseContext); ok {
			return c, true
		}
	}
	return perdure.SummariseContext{}, false
}

func TestSummaries(t *testing.T) { // TN23
	t.Parallel()
	w := longTalk(t, 4, 40, perdure.Agent{MaxContextTokens: 300, Summarise: true})
	sums := 0
	for i := range 12 {
		w.receive(fmt.Sprintf("more %d", i), "")
		w.wake()
		for c, due := summing(w); due; c, due = summing(w) {
			s := w.fold(len(w.journal))
			gone := s.Omitted(c)
			if gone[0].Text() != "question 0" || sums > 0 && !strings.Contains(gone[1].Text(), fmt.Sprintf("summary %d", sums)) {
				t.Fatalf("summary %d is made of %+v", sums+1, gone[:2])
			}
			sums++
			summary := fmt.Sprintf("summary %d", sums)
			if sums == 3 { // this one cannot be had: the last one stands
				summary = ""
				sums--
			}
			var facts []perdure.Fact
			for _, e := range c.Events(s, summary) {
				facts = append(facts, e.Fact)
			}
			w.settle(facts...)
			shown := w.fold(len(w.journal)).Context()
			if err := paired(shown); err != nil {
				t.Fatal(err)
			}
			notice := shown[1].Text()
			if shown[0].Text() != "question 0" || strings.Count(notice, "summary ") != 1 || !strings.Contains(notice, fmt.Sprintf("summary %d", sums)) {
				t.Fatalf("the model is shown %q", notice)
			}
		}
		if _, asked := w.model(); !asked {
			t.Fatalf("the model is not asked: %+v", w.due)
		}
		w.settle(w.answer(strings.Repeat("an answer ", 12))...)
	}
	if sums < 2 {
		t.Errorf("only %d summaries", sums)
	}
}
