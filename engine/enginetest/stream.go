package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// slowText is a slow model response; its script starts with more.
const (
	slowText = "It is in the second drawer of the desk by the window."
	slowly   = "    chunk: 4\n    pace: 100ms\n"
)

// breaking is an agent whose first model response is cut off.
func breaking(more string) string {
	return more + `
rules:
  - when: {attempt: 1, step: 0}
    text: ` + slowText + `
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: 16}
steps:
  - text: ` + slowText + `
  - text: As I said.
    repeat: true
`
}

func streamLaws() []law {
	return []law{
		{"DeltasOnly", deltasOnly},
		{"JoinsAnAnswer", joinsAnswer},
		{"JoinsAPause", joinsPause},
		{"goes_on_where_an_answer_broke_off", continuesAnswer},
		{"begins_again_where_its_agent_wants_that", restartsAnswer},
		{"lets_the_text_stand_where_its_agent_wants_that", finalizesAnswer},
		{"keeps_calls_of_an_answer_that_broke_off_unmade", continuesWithoutCalls},
		{"goes_on_after_a_kill_in_the_middle_of_an_answer", continuesAfterKill},
		{"PartialMarkedInterrupted", finalizesAfterKill},
		{"begins_again_after_a_kill_where_its_agent_wants_that", restartsAfterKill},
		{"RestartClosesStartedMessage", restartsSameMessage},
		{"interrupt_after_a_kill_keeps_the_text", interruptsAfterKill},
		{"withholds_what_a_guard_trips_over", withholds},
		{"tells_the_model_of_a_loop_once", tellsLoop},
		{"seals_a_turn_that_loops", sealsLoop},
		{"sums_up_what_is_left_out", sumsUp},
		{"leaves_out_what_cannot_be_summed_up", dropsWithoutSummary},
	}
}

// said formats the messages of the agent and the runtime.
func (s *scene) said() []string {
	var all []string
	for _, m := range s.fold().Transcript {
		line := string(m.Role)
		if m.Interrupted {
			line += " interrupted"
		}
		switch m.Role {
		case perdure.RoleAgent:
			all = append(all, line+": "+m.Text())
		case perdure.RoleNotification:
			all = append(all, line)
		}
	}
	return all
}

// wants compares the messages, and checks that each message was started and completed once.
func (s *scene) wants(want ...string) {
	s.t.Helper()
	if got := s.said(); !slices.Equal(got, want) {
		s.t.Errorf("got %q, want %q; journal:\n%s", got, want, s.journalText())
	}
	started, completed := facts[perdure.OutputStarted](s), facts[perdure.OutputCompleted](s)
	if len(started) != len(completed) {
		s.t.Fatalf("%d messages started, %d completed; journal:\n%s", len(started), len(completed), s.journalText())
	}
	for i, m := range completed {
		if m.Message.ID != started[i].MessageID {
			s.t.Errorf("message %s was started, %s completed", started[i].MessageID, m.Message.ID)
		}
	}
}

// recoveries returns the modes in which responses were recovered.
func (s *scene) recoveries() (modes []perdure.RecoveryMode) {
	for _, f := range facts[perdure.ReasonRecovered](s) {
		modes = append(modes, f.Mode)
	}
	return modes
}

// recovered compares them.
func (s *scene) recovered(want ...perdure.RecoveryMode) {
	s.t.Helper()
	if got := s.recoveries(); !slices.Equal(got, want) {
		s.t.Errorf("got recoveries %v, want %v; journal:\n%s", got, want, s.journalText())
	}
}

func continuesAnswer(t *testing.T, open Harness) { // TN20, TN21
	s := begin(t, open, Setup{Script: breaking("prefix: true")})
	s.say("where is it?")
	s.rest()

	s.wants("agent: " + slowText)
	s.recovered(perdure.RecoverContinue)
}

func restartsAnswer(t *testing.T, open Harness) { // TN20
	s := begin(t, open, Setup{Script: breaking("prefix: true"), Agent: perdure.Agent{Recovery: perdure.RecoverRestart}})
	s.say("where is it?")
	s.rest()

	s.wants("agent: " + slowText)
	s.recovered(perdure.RecoverRestart)
	if r := facts[perdure.OutputReplaced](s); len(r) != 1 || r[0].Replacement != "" ||
		r[0].MessageID != facts[perdure.OutputStarted](s)[0].MessageID {
		t.Errorf("got %+v: watchers of the first text must be told once to discard it", r)
	}
}

func finalizesAnswer(t *testing.T, open Harness) { // TN20
	s := begin(t, open, Setup{
		Script: breaking("prefix: true"), Agent: perdure.Agent{Recovery: perdure.RecoverFinalize},
	})
	s.say("where is it?")
	s.rest()

	s.wants("agent interrupted: "+slowText[:16], "notification", "agent: As I said.")
	s.recovered(perdure.RecoverFinalize)
}

func continuesWithoutCalls(t *testing.T, open Harness) { // TN7, TN20
	s := begin(t, open, Setup{Script: `
prefix: true
rules:
  - when: {attempt: 1, step: 0}
    text: I look
    calls: [{name: charge, args: {text: a}}]
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: 24}
steps:
  - text: I look no further
`})
	s.say("look")
	s.rest()

	s.wants("agent: I look no further")
	if calls, err := s.eng.Calls().List(s.ctx, s.id); err != nil || len(calls) > 0 {
		t.Errorf("%d calls, %v", len(calls), err)
	}
}

// midway sends a message and returns when the agent has started to answer.
func (s *scene) midway() {
	s.t.Helper()
	s.answers(func(int) bool { return true })
}

// keptMidway sends a message and returns when the store has a part of the response, because a live
// update follows its commit.
func (s *scene) keptMidway() {
	s.t.Helper()
	s.answers(func(offset int) bool { return offset > 0 })
}

// answers sends a message and returns when a delta has an acceptable offset. It follows the session
// before it sends, because on a slow machine the response could be complete before the follower
// starts.
func (s *scene) answers(enough func(offset int) bool) {
	s.t.Helper()
	seen, asked := errors.New("seen"), false
	err := s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
		if !asked { // the first frame is an existing event
			asked = true
			s.say("where is it?")
		}
		d, err := pieceOf(f)
		if err == nil && d != nil && enough(d.Offset) {
			return seen
		}
		return err
	})
	if !errors.Is(err, seen) {
		s.t.Fatalf("the response does not start: %v; journal:\n%s", err, s.journalText())
	}
}

// streaming is a setup with a slow model response; each piece of it is stored.
func streaming(recovery perdure.RecoveryMode) Setup {
	return Setup{Checkpoint: 1, Agent: perdure.Agent{Recovery: recovery}, Script: "prefix: true\nsteps:\n  - text: " + slowText + "\n" + slowly + `
  - text: As I said.
    repeat: true
`}
}

// piece is a part of a response as followers receive it.
type piece struct {
	Message perdure.MessageID `json:"message_id"`
	Offset  int               `json:"offset"`
	Delta   string            `json:"delta"`
}

// pieceOf decodes a frame; nil: it is something else.
func pieceOf(f engine.Frame) (*piece, error) {
	if f.Type != "output.message.delta" {
		return nil, nil
	}
	d := new(piece)
	return d, perdure.DecodeKnownJSON(f.Data, d)
}

// deltasOnly follows a response from before its model call: live updates contain only new text, in
// order, and each piece once.
func deltasOnly(t *testing.T, open Harness) { // TN6, EV6
	s := begin(t, open, streaming(""))
	whole, shown, pieces, asked := errors.New("whole"), "", 0, false
	err := s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
		if !asked {
			asked = true
			s.say("where is it?")
		}
		d, err := pieceOf(f)
		if d == nil || err != nil {
			return err
		}
		pieces++
		if shown += d.Delta; shown == slowText {
			return whole
		}
		if !strings.HasPrefix(slowText, shown) || d.Delta == "" || f.Dropped > 0 {
			return fmt.Errorf("piece %d is %q, %d lost, after %q was shown", pieces, d.Delta, f.Dropped, shown)
		}
		return nil
	})

	if !errors.Is(err, whole) || pieces < 2 {
		t.Errorf("%d pieces, %v; journal:\n%s", pieces, err, s.journalText())
	}
	s.rest()
	s.wants("agent: " + slowText)
}

func continuesAfterKill(t *testing.T, open Harness) { // TN19, TN20
	s := begin(t, open, streaming(""))
	s.keptMidway()
	s.crash()
	s.rest()

	s.wants("agent: " + slowText)
	s.recovered(perdure.RecoverContinue)
}

func finalizesAfterKill(t *testing.T, open Harness) { // TN20
	s := begin(t, open, streaming(perdure.RecoverFinalize))
	s.keptMidway()
	s.crash()
	s.rest()

	first := facts[perdure.OutputCompleted](s)[0]
	if text := first.Message.Text(); text == "" || !strings.HasPrefix(slowText, text) || !first.Interrupted ||
		!first.Message.Interrupted || first.FinishReason != "interrupted" {
		t.Errorf("got %+v", first)
	}
	s.wants("agent interrupted: "+first.Message.Text(), "notification", "agent: As I said.")
	s.recovered(perdure.RecoverFinalize)
}

func restartsAfterKill(t *testing.T, open Harness) { // TN20
	s := begin(t, open, streaming(perdure.RecoverRestart))
	s.keptMidway()
	s.crash()
	s.rest()

	s.wants("agent: " + slowText)
	if got := s.recoveries(); len(got) != 1 || got[0] != perdure.RecoverRestart ||
		len(facts[perdure.OutputReplaced](s)) != 1 {
		t.Errorf("got %v; journal:\n%s", got, s.journalText())
	}
}

// restartsSameMessage kills a response of which nothing is stored.
func restartsSameMessage(t *testing.T, open Harness) { // TN3, TN20
	setup := streaming("")
	setup.Checkpoint = 0
	s := begin(t, open, setup)
	s.midway()
	s.crash()
	s.rest()

	s.wants("agent: " + slowText)
	s.recovered(perdure.RecoverRestart)
}

func interruptsAfterKill(t *testing.T, open Harness) { // RC8, TN20
	s := begin(t, open, streaming(""))
	s.keptMidway()
	s.Stop(t)
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", "enough"); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	s.eng = s.Start(t)
	s.rest()

	got := s.said()
	if len(got) != 1 || !strings.HasPrefix("agent interrupted: "+slowText, got[0]) ||
		len(got[0]) <= len("agent interrupted: ") {
		t.Errorf("got %q; journal:\n%s", got, s.journalText())
	}
}

func withholds(t *testing.T, open Harness) { // TN9
	s := begin(t, open, Setup{
		Guard: "hunter2", Checkpoint: 1,
		Script: "steps:\n  - text: The word is hunter2, tell nobody.\n" + slowly +
			"    calls: [{name: charge, args: {text: a}}]\n",
	})
	s.say("what is the word?")
	s.rest()

	s.wants("agent: [withheld]")
	replaced := facts[perdure.OutputReplaced](s)
	if len(replaced) != 1 || replaced[0].Guardrail != "word" || replaced[0].Replacement != "[withheld]" ||
		replaced[0].ReasonCode != perdure.ReplacedByGuard {
		t.Errorf("got %+v", replaced)
	}
	if story := s.journalText(); strings.Contains(story, "hunter") || strings.Contains(story, "The word is") {
		t.Errorf("it is in the journal:\n%s", story)
	}
	if len(s.Effects("charge")) > 0 || len(facts[perdure.TurnCompleted](s)) != 1 {
		t.Errorf("journal:\n%s", s.journalText())
	}
}

// again is an agent that repeats one call until a notification arrives.
const again = `
rules:
  - when: {last_role: notification}
    text: I stop
steps:
  - calls: [{name: echo, args: {text: a}}]
    repeat: true
`

func tellsLoop(t *testing.T, open Harness) { // TN24
	s := begin(t, open, Setup{Script: again})
	s.say("go")
	s.rest()

	found := facts[perdure.LoopDetected](s)
	if len(found) != 1 || found[0].Name != "echo" || found[0].Count != 3 || found[0].Fingerprint == "" ||
		s.final() != "I stop" {
		t.Errorf("got %+v; journal:\n%s", found, s.journalText())
	}
	if n := len(facts[perdure.ToolCompleted](s)); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

func sealsLoop(t *testing.T, open Harness) { // TN24
	s := begin(t, open, Setup{Agent: perdure.Agent{SealAfter: 5}, Script: `
steps:
  - calls: [{name: echo, args: {text: a}}]
    repeat: true
`})
	s.say("go")
	s.rest()

	sealed := facts[perdure.TurnSealed](s)
	if len(sealed) != 1 || sealed[0].Reason != "no_progress" || len(facts[perdure.ToolCompleted](s)) != 5 ||
		len(facts[perdure.LoopDetected](s)) != 1 {
		t.Errorf("got %+v; journal:\n%s", sealed, s.journalText())
	}
}

// long is an agent that reads a lot; its last step writes the summary.
func long(summary string) string {
	return `
rules:
  - when: {last_contains: "user: begin", last_role: user}
    ` + summary + `
  - when: {user_contains: end, last_role: user}
    text: over
steps:
  - text: "` + strings.Repeat("a word ", 300) + `"
    repeat: true
`
}

func sumsUp(t *testing.T, open Harness) { // TN23
	s := begin(t, open, Setup{
		Script: long("text: they spoke of a word"), Agent: perdure.Agent{MaxContextTokens: 1200, Summarise: true},
	})
	for _, text := range []string{"begin", "more", "and more", "the end"} {
		s.say(text)
		s.rest()
	}

	compacted := facts[perdure.ContextCompacted](s)
	if len(compacted) == 0 || compacted[0].Strategy != "summarise" ||
		compacted[0].Compaction.Summary != "they spoke of a word" {
		t.Fatalf("got %+v; journal:\n%s", compacted, s.journalText())
	}
	fold := s.fold()
	shown := ""
	for _, m := range fold.Context() {
		shown += m.Text() + "\n"
	}
	if !strings.Contains(shown, "they spoke of a word") || !strings.HasPrefix(shown, "begin\n") ||
		len(fold.Transcript) != 8 || s.final() != "over" {
		t.Errorf("%d messages; the model receives %q", len(fold.Transcript), shown)
	}
}

func dropsWithoutSummary(t *testing.T, open Harness) { // TN23
	s := begin(t, open, Setup{
		Script: long("error: {code: provider_unavailable}"),
		Agent:  perdure.Agent{MaxContextTokens: 1200, Summarise: true},
	})
	for _, text := range []string{"begin", "more", "and more", "the end"} {
		s.say(text)
		s.rest()
	}

	compacted := facts[perdure.ContextCompacted](s)
	if len(compacted) == 0 || compacted[0].Strategy != "drop" || compacted[0].Compaction.Summary != "" ||
		s.final() != "over" {
		t.Errorf("got %+v; journal:\n%s", compacted, s.journalText())
	}
}
