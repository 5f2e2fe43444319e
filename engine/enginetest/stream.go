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

// drawer is an answer that takes its time, and its script, which begins with more.
const (
	drawer = "It is in the second drawer of the desk by the window."
	slowly = "    chunk: 4\n    pace: 100ms\n"
)

// breaking is an agent whose answer breaks off at the first attempt.
func breaking(more string) string {
	return more + `
rules:
  - when: {attempt: 1, step: 0}
    text: ` + drawer + `
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: 16}
steps:
  - text: ` + drawer + `
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

// said writes down what the agent and the runtime said.
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

// wants compares what was said, and checks that each message was opened and closed once.
func (s *scene) wants(want ...string) {
	s.t.Helper()
	if got := s.said(); !slices.Equal(got, want) {
		s.t.Errorf("got %q, want %q; journal:\n%s", got, want, s.story())
	}
	started, completed := facts[perdure.OutputStarted](s), facts[perdure.OutputCompleted](s)
	if len(started) != len(completed) {
		s.t.Fatalf("%d messages started, %d completed; journal:\n%s", len(started), len(completed), s.story())
	}
	for i, m := range completed {
		if m.Message.ID != started[i].MessageID {
			s.t.Errorf("message %s was started, %s completed", started[i].MessageID, m.Message.ID)
		}
	}
}

// recoveries are the modes in which answers were recovered.
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
		s.t.Errorf("got recoveries %v, want %v; journal:\n%s", got, want, s.story())
	}
}

func continuesAnswer(t *testing.T, open Harness) { // TN20, TN21
	s := begin(t, open, Setup{Script: breaking("prefix: true")})
	s.say("where is it?")
	s.rest()

	s.wants("agent: " + drawer)
	s.recovered(perdure.RecoverContinue)
}

func restartsAnswer(t *testing.T, open Harness) { // TN20
	s := begin(t, open, Setup{Script: breaking("prefix: true"), Agent: perdure.Agent{Recovery: perdure.RecoverRestart}})
	s.say("where is it?")
	s.rest()

	s.wants("agent: " + drawer)
	s.recovered(perdure.RecoverRestart)
	if r := facts[perdure.OutputReplaced](s); len(r) != 1 || r[0].Replacement != "" || r[0].MessageID != facts[perdure.OutputStarted](s)[0].MessageID {
		t.Errorf("got %+v: whoever saw the first text must be told to forget it, once", r)
	}
}

func finalizesAnswer(t *testing.T, open Harness) { // TN20
	s := begin(t, open, Setup{Script: breaking("prefix: true"), Agent: perdure.Agent{Recovery: perdure.RecoverFinalize}})
	s.say("where is it?")
	s.rest()

	s.wants("agent interrupted: "+drawer[:16], "notification", "agent: As I said.")
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
	if calls, err := s.eng.Calls(s.ctx, s.id); err != nil || len(calls) > 0 {
		t.Errorf("%d calls, %v", len(calls), err)
	}
}

// midway says something and returns when the agent has begun to answer.
func (s *scene) midway() {
	s.t.Helper()
	s.answers(func(int) bool { return true })
}

// keptMidway says something and returns when the store has some of the answer: a frame goes on after that.
func (s *scene) keptMidway() {
	s.t.Helper()
	s.answers(func(offset int) bool { return offset > 0 })
}

// answers says something and returns when a piece of the answer is at an offset that will do. It follows the session before it
// says anything: on a slow machine the answer would be over before the follower comes.
func (s *scene) answers(enough func(offset int) bool) {
	s.t.Helper()
	seen, asked := errors.New("seen"), false
	err := s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
		if !asked { // the first frame is an event that was there
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
		s.t.Fatalf("the answer does not begin: %v; journal:\n%s", err, s.story())
	}
}

// streaming is a setup whose answer takes its time; each piece of it is kept.
func streaming(recovery perdure.RecoveryMode) Setup {
	return Setup{Checkpoint: 1, Agent: perdure.Agent{Recovery: recovery}, Script: "prefix: true\nsteps:\n  - text: " + drawer + "\n" + slowly + `
  - text: As I said.
    repeat: true
`}
}

// piece is a part of an answer as followers get it.
type piece struct {
	Message perdure.MessageID `json:"message_id"`
	Offset  int               `json:"offset"`
	Delta   string            `json:"delta"`
}

// pieceOf reads a frame; nil: it is something else.
func pieceOf(f engine.Frame) (*piece, error) {
	if f.Type != "output.message.delta" {
		return nil, nil
	}
	d := new(piece)
	return d, perdure.DecodeKnownJSON(f.Data, d)
}

// deltasOnly follows an answer from before its question: what comes live is what is new, in order, and each piece once.
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
		if shown += d.Delta; shown == drawer {
			return whole
		}
		if !strings.HasPrefix(drawer, shown) || d.Delta == "" || f.Dropped > 0 {
			return fmt.Errorf("piece %d is %q, %d lost, after which %q is shown", pieces, d.Delta, f.Dropped, shown)
		}
		return nil
	})

	if !errors.Is(err, whole) || pieces < 2 {
		t.Errorf("%d pieces, %v; journal:\n%s", pieces, err, s.story())
	}
	s.rest()
	s.wants("agent: " + drawer)
}

func continuesAfterKill(t *testing.T, open Harness) { // TN19, TN20
	s := begin(t, open, streaming(""))
	s.keptMidway()
	s.crash()
	s.rest()

	s.wants("agent: " + drawer)
	s.recovered(perdure.RecoverContinue)
}

func finalizesAfterKill(t *testing.T, open Harness) { // TN20
	s := begin(t, open, streaming(perdure.RecoverFinalize))
	s.keptMidway()
	s.crash()
	s.rest()

	first := facts[perdure.OutputCompleted](s)[0]
	if text := first.Message.Text(); text == "" || !strings.HasPrefix(drawer, text) || !first.Interrupted || !first.Message.Interrupted || first.FinishReason != "interrupted" {
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

	s.wants("agent: " + drawer)
	if got := s.recoveries(); len(got) != 1 || got[0] != perdure.RecoverRestart || len(facts[perdure.OutputReplaced](s)) != 1 {
		t.Errorf("got %v; journal:\n%s", got, s.story())
	}
}

// restartsSameMessage kills an answer of which nothing was kept.
func restartsSameMessage(t *testing.T, open Harness) { // TN3, TN20
	setup := streaming("")
	setup.Checkpoint = 0
	s := begin(t, open, setup)
	s.midway()
	s.crash()
	s.rest()

	s.wants("agent: " + drawer)
	s.recovered(perdure.RecoverRestart)
}

func interruptsAfterKill(t *testing.T, open Harness) { // RC8, TN20
	s := begin(t, open, streaming(""))
	s.keptMidway()
	s.Stop(t)
	if err := s.eng.Interrupt(s.ctx, s.id, "user", "enough"); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	s.eng = s.Start(t)
	s.rest()

	got := s.said()
	if len(got) != 1 || !strings.HasPrefix("agent interrupted: "+drawer, got[0]) || len(got[0]) <= len("agent interrupted: ") {
		t.Errorf("got %q; journal:\n%s", got, s.story())
	}
}

func withholds(t *testing.T, open Harness) { // TN9
	s := begin(t, open, Setup{
		Guard: "hunter2", Checkpoint: 1,
		Script: "steps:\n  - text: The word is hunter2, tell nobody.\n" + slowly + "    calls: [{name: charge, args: {text: a}}]\n",
	})
	s.say("what is the word?")
	s.rest()

	s.wants("agent: [withheld]")
	replaced := facts[perdure.OutputReplaced](s)
	if len(replaced) != 1 || replaced[0].Guardrail != "word" || replaced[0].Replacement != "[withheld]" || replaced[0].ReasonCode != perdure.ReplacedByGuard {
		t.Errorf("got %+v", replaced)
	}
	if story := s.story(); strings.Contains(story, "hunter") || strings.Contains(story, "The word is") {
		t.Errorf("it stands in the journal:\n%s", story)
	}
	if len(s.Effects("charge")) > 0 || len(facts[perdure.TurnCompleted](s)) != 1 {
		t.Errorf("journal:\n%s", s.story())
	}
}

// again is an agent that makes one call again and again until it is told.
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
	if len(found) != 1 || found[0].Name != "echo" || found[0].Count != 3 || found[0].Fingerprint == "" || s.final() != "I stop" {
		t.Errorf("got %+v; journal:\n%s", found, s.story())
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
	if len(sealed) != 1 || sealed[0].Reason != "no_progress" || len(facts[perdure.ToolCompleted](s)) != 5 || len(facts[perdure.LoopDetected](s)) != 1 {
		t.Errorf("got %+v; journal:\n%s", sealed, s.story())
	}
}

// long is an agent that reads a lot; summing up is what its last step says.
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
	s := begin(t, open, Setup{Script: long("text: they spoke of a word"), Agent: perdure.Agent{MaxContextTokens: 1200, Summarise: true}})
	for _, text := range []string{"begin", "more", "and more", "the end"} {
		s.say(text)
		s.rest()
	}

	compacted := facts[perdure.ContextCompacted](s)
	if len(compacted) == 0 || compacted[0].Strategy != "summarise" || compacted[0].Compaction.Summary != "they spoke of a word" {
		t.Fatalf("got %+v; journal:\n%s", compacted, s.story())
	}
	fold := s.fold()
	shown := ""
	for _, m := range fold.Context() {
		shown += m.Text() + "\n"
	}
	if !strings.Contains(shown, "they spoke of a word") || !strings.HasPrefix(shown, "begin\n") || len(fold.Transcript) != 8 || s.final() != "over" {
		t.Errorf("%d messages; the model is shown %q", len(fold.Transcript), shown)
	}
}

func dropsWithoutSummary(t *testing.T, open Harness) { // TN23
	s := begin(t, open, Setup{
		Script: long("error: {code: provider_unavailable}"), Agent: perdure.Agent{MaxContextTokens: 1200, Summarise: true},
	})
	for _, text := range []string{"begin", "more", "and more", "the end"} {
		s.say(text)
		s.rest()
	}

	compacted := facts[perdure.ContextCompacted](s)
	if len(compacted) == 0 || compacted[0].Strategy != "drop" || compacted[0].Compaction.Summary != "" || s.final() != "over" {
		t.Errorf("got %+v; journal:\n%s", compacted, s.story())
	}
}

// answered is what a follower makes of the text of answers.
type answered struct {
	text   string
	pieces int
	holes  int // pieces that lie beyond what there was
}

// take notes a frame by the rule of output.message.delta.
func (a *answered) take(f engine.Frame) error {
	d, err := pieceOf(f)
	if d == nil || err != nil {
		return err
	}
	a.pieces++
	if d.Offset > len(a.text) {
		a.holes++
		return nil
	}
	a.text = a.text[:d.Offset] + d.Delta
	return nil
}

// joinsAnswer follows an answer from its midst on: the text so far comes once, then what is new, and no piece of it is missing.
func joinsAnswer(t *testing.T, open Harness) { // ST4
	s := begin(t, open, streaming(""))
	s.keptMidway()
	last := s.fold().Seq
	for _, after := range []int64{0, last} {
		var got answered
		enough := errors.New("enough")
		err := s.eng.Follow(s.ctx, s.id, after, func(f engine.Frame) error {
			if err := got.take(f); err != nil {
				return err
			}
			if got.pieces == 2 || got.text == drawer {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || got.text == "" || !strings.HasPrefix(drawer, got.text) || got.holes > 0 {
			t.Errorf("after %d: got %+v, %v; journal:\n%s", after, got, err, s.story())
		}
	}
	s.rest()
	s.wants("agent: " + drawer)
}

// joinsPause follows an answer that pauses: what was said before it is told, though nothing new comes.
func joinsPause(t *testing.T, open Harness) { // ST4
	setup := streaming("")
	setup.Script = "prefix: true\nsteps:\n  - text: " + drawer + "\n    chunk: 16\n    pace: 1h\n"
	s := begin(t, open, setup)
	s.midway()
	for _, after := range []int64{0, s.fold().Seq} {
		var got answered
		enough := errors.New("enough")
		err := s.eng.Follow(s.ctx, s.id, after, func(f engine.Frame) error {
			if err := got.take(f); err != nil || got.pieces == 0 {
				return err
			}
			return enough
		})
		if !errors.Is(err, enough) || got.text != drawer[:16] || got.holes > 0 {
			t.Errorf("after %d: got %+v, %v; journal:\n%s", after, got, err, s.story())
		}
	}
}
