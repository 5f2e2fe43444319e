package perdure_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// update rewrites the fixtures from their scripts. Once a release has shipped with a journal, only
// its snapshot may change, and with it FoldVersion.
var update = flag.Bool("update", false, "rewrite testdata/journals")

// histories are the scripts of the fixtures.
func histories() []struct {
	name string
	play func(*testing.T, *simulator)
} {
	return []struct {
		name string
		play func(*testing.T, *simulator)
	}{
		{"0001-tool-turn", playToolTurn},
		{"0001-background-run", playBackgroundRun},
		{"0001-interrupt", playInterrupt},
		{"0001-unknown-outcome", playUnknownOutcome},
		{"0001-provider-error", playProviderError},
		{"0001-pause", playPause},
	}
}

// journalFixtures lists the journals of this and all released versions.
func journalFixtures(tb testing.TB) []string {
	tb.Helper()
	fixtures, err := filepath.Glob("testdata/journals/*.jsonl")
	if err != nil || len(fixtures) == 0 {
		tb.Fatalf("testdata/journals: %v, %v; go test -run TestJournals -update writes it", fixtures, err)
	}
	return fixtures
}

// TestJournals folds every fixture to the session that stands beside it.
func TestJournals(t *testing.T) {
	t.Parallel()
	if *update {
		for _, h := range histories() {
			w := newSimulator(t, perdure.Agent{Name: "ada", Model: "scripted", Title: "Release", MaxIterations: 5})
			w.tick = 250 * time.Millisecond
			h.play(t, w)
			write(t, filepath.Join("testdata/journals", h.name+".jsonl"), append(bytes.Join(w.journal, []byte("\n")), '\n'))
			write(t, filepath.Join("testdata/journals", h.name+".snapshot.json"), pretty(t, w.snapshot(w.fold(0))))
		}
	}
	for _, fixture := range journalFixtures(t) {
		t.Run(strings.TrimSuffix(filepath.Base(fixture), ".jsonl"), func(t *testing.T) {
			t.Parallel()
			foldFixture(t, fixture)
		})
	}
}

func foldFixture(t *testing.T, fixture string) {
	t.Helper()
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(strings.TrimSuffix(fixture, ".jsonl") + ".snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	w := &simulator{tb: t, laws: newLaws(t), rows: map[perdure.TaskID]perdure.Task{}}
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		w.commit(line)
		if f, ok := w.events[len(w.events)-1].Fact.(perdure.TaskUpdated); ok {
			w.rows[f.Task.ID] = f.Task
		}
		if again, err := perdure.EncodeEvent(w.events[len(w.events)-1]); err != nil || !bytes.Equal(again, line) {
			t.Errorf("written again: %v\n got %s\nwant %s", err, again, line)
		}
		w.now = w.events[len(w.events)-1].At
	}
	w.session = w.fold(0)

	if diff := cmp.Diff(string(pretty(t, w.snapshot(w.session))), string(want)); diff != "" {
		t.Errorf("fold (-got +want), go test -run TestJournals -update rewrites it:\n%s", diff)
	}
	for n := range len(w.events) {
		w.sameFold(n + 1)
		w.decide(w.fold(n + 1))
	}
	w.wake()
	if !w.rested {
		t.Errorf("due at the end: got %+v, want rest", w.due)
	}
}

func pretty(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// playToolTurn asks for two calls, of which one is refused, and answers.
func playToolTurn(_ *testing.T, w *simulator) {
	w.receive("What is in README.md?", "")
	w.wake()
	read := asked{Args: `{"path":"/README.md"}`, PlannedCall: perdure.PlannedCall{
		ID: "call_1", Name: "read_file", DisplayName: "Read File", Narration: "Reading README.md", Class: perdure.Pure, Fingerprint: "sha256:11",
	}}
	refusal := perdure.Refused("call_2", perdure.ErrorRejected, "Tool definition not found: rm")
	remove := asked{Args: `{}`, PlannedCall: perdure.PlannedCall{ID: "call_2", Name: "rm", Refusal: &refusal}}
	w.settle(w.answer("Let me look.", read, remove)...)
	w.receive("Be brief.", perdure.ModeSteer)
	w.settle(done(w.runs()[0].Call, `{"path":"/README.md","content":"# Perdure"}`))
	w.settle(w.answer("A title: Perdure.")...)
}

// playBackgroundRun spawns a run that outlives its turn, is delivered, and is answered in another
// turn.
func playBackgroundRun(_ *testing.T, w *simulator) {
	w.receive("Build it in the background.", "")
	w.wake()
	spawn := asked{Args: `{"tool":"bash","args":{"command":"make"}}`, PlannedCall: perdure.PlannedCall{
		ID: "call_1", Name: "spawn_background", Class: perdure.Idempotent, Fingerprint: "sha256:22",
	}}
	w.settle(w.answer("", spawn)...)
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.settle(done(w.runs()[0].Call, `{"type":"background","background_id":"`+string(id)+`"}`))
	w.settle(w.answer("I started it.")...)
	w.update(id, perdure.TaskUpdate{Attempt: 1, Links: perdure.Links{Resources: []string{"r1"}}})
	w.update(id, perdure.TaskUpdate{
		Attempt: 1, State: perdure.TaskSucceeded, Detail: "completed", Summary: "built", ResultPath: "/.background/bg/result.json",
		Artifacts: []perdure.Artifact{{Name: "output.log", Path: "/.background/bg/output.log"}},
	})
	w.wake()
	w.settle(w.answer("The build is done.")...)
}

// playInterrupt stops a turn with one call done, one running and one planned, and continues with
// another message.
func playInterrupt(_ *testing.T, w *simulator) {
	w.receive("Tidy up.", "")
	w.wake()
	calls := []asked{call("call_1"), call("call_2"), call("call_3")}
	calls[1].Concurrency, calls[2].Concurrency = "session_workspace", "session_workspace"
	w.settle(w.answer("", calls...)...)
	w.settle(done(w.runs()[0].Call, `{"removed":3}`))
	w.receive("Stop, only list them.", perdure.ModeInterrupt)
	w.wake()
	w.settle(completed(w.runs()[0].Call, perdure.Failed("call_2", perdure.ErrorInterrupted, perdure.TextInterrupted)))
	w.settle(w.answer("a, b, c")...)
}

// playUnknownOutcome has a call with an unknown outcome, which an operator resolves.
func playUnknownOutcome(_ *testing.T, w *simulator) {
	w.receive("Pay the invoice.", "")
	w.wake()
	pay := call("call_1")
	pay.Class = perdure.AtMostOnce
	w.settle(w.answer("", pay)...)
	w.crash(3)
	c := w.runs()[0].Call
	w.settle(completed(c, perdure.Failed(c.ID, perdure.ErrorUnknown, perdure.TextUnknown)),
		perdure.ToolUnknown{CallID: c.ID, Name: c.Name, Since: c.StartedAt, IdempotencyKey: string(sessionID) + ":call_1"})
	w.settle(w.answer("I do not know whether it was paid.")...)
	notice := perdure.Message{ID: newID[perdure.MessageID](w), Role: perdure.RoleNotification, At: w.now,
		Parts: []perdure.Part{{Type: perdure.PartText, Text: "An operator says: the call call_1 happened."}}}
	w.intend(perdure.ToolResolved{
		CallID: c.ID, Answer: perdure.ResolveHappened, Outcome: "succeeded", Result: json.RawMessage(`{"paid":true}`), By: "ada", Message: notice,
	})
	w.receive("And now?", "")
	w.wake()
	w.settle(w.answer("It was paid.")...)
}

// playPause has a person pause twice: between two calls, and for as long as the journal goes.
func playPause(_ *testing.T, w *simulator) {
	w.receive("Tidy up.", "")
	w.wake()
	calls := []asked{call("call_1"), call("call_2")}
	calls[0].Concurrency, calls[1].Concurrency = "session_workspace", "session_workspace"
	w.settle(w.answer("", calls...)...)
	w.intend(perdure.SessionPauses{By: "ada", Reason: "let me look"})
	w.settle(done(w.runs()[0].Call, `{"removed":3}`))
	w.intend(perdure.SessionResumes{By: "ada"})
	w.wake()
	w.intend(perdure.SessionPauses{By: "ada"})
	w.settle(done(w.runs()[0].Call, `{"removed":1}`))
}

// playProviderError has a provider that fails twice before it answers, and a session that knows
// newer facts.
func playProviderError(_ *testing.T, w *simulator) {
	w.receive("Hello?", "")
	w.wake()
	w.settle(w.failure("provider_rate_limited", true)...)
	w.settle(w.failure("provider_unavailable", true)...)
	w.intend(perdure.UnknownFact{Kind: "session.painted", Data: []byte(`{"color":"teal"}`)})
	w.settle(w.answer("Hello.")...)
}
