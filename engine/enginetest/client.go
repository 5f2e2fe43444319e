package enginetest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func clientLaws() []law {
	return []law{
		{"ClientAnswers", clientAnswers},
		{"ClientAnswerTwice", clientTwice},
		{"ClientResultIsChecked", clientChecked},
		{"ClientUnknownCall", clientUnknown},
		{"ClientWithoutAnswersGetsErrorAtOnce", clientWithout},
		{"ClientInterrupted", clientInterrupted},
		{"ClientDeadline", clientDeadline},
		{"ClientSurvivesKill", clientSurvives},
		{"ConnectionRequiredPauses", connectionPauses},
		{"ConnectionRequiredIsResultWithout", connectionResult},
		{"SessionWaitingStatus", waitingStatus},
	}
}

// answers is an agent with tools that the client executes.
var answers = perdure.Agent{ClientTools: true}

// requested waits for the nth client-side call.
func (s *scene) requested(n int) (perdure.ToolCallRequested, perdure.CallKey) {
	s.t.Helper()
	f := nth[perdure.ToolCallRequested](s, n, nil)
	return f, perdure.CallKey{Session: s.id, Call: f.CallID}
}

// gives answers a call as the client does.
func (s *scene) gives(key perdure.CallKey, result string) error {
	return s.eng.Calls().Answer(s.ctx, key, "app", perdure.ToolResult{Result: json.RawMessage(result)})
}

func clientAnswers(t *testing.T, open Harness) { // AP11
	s := begin(t, open, Setup{Agent: answers, Script: oneTool("client", "{text: a}")})
	s.say("go")
	f, key := s.requested(1)
	if err := s.gives(key, `{"it":"is"}`); err != nil {
		t.Fatal(err)
	}
	s.rest()

	if f.Name != "client" || string(f.Args) != `{"text":"a"}` || f.Connection != "" || len(s.ledger()) != 0 {
		t.Errorf("requested %+v, %d claims", f, len(s.ledger()))
	}
	if got := s.results(); len(got) != 1 || got[0] != `{"it":"is"}` || s.final() != "done" {
		t.Errorf("got %q", got)
	}
}

func clientTwice(t *testing.T, open Harness) { // AP11: the first wins
	s := begin(t, open, Setup{Agent: answers, Script: oneTool("client", "{text: a}")})
	s.say("go")
	_, key := s.requested(1)
	const result = `{"it": "is <b>"}`
	first := s.gives(key, result)
	same := s.gives(key, result)
	s.rest()
	later := s.gives(key, result)
	other := s.gives(key, `{"it":"is not"}`)

	if first != nil || same != nil || later != nil || !errors.Is(other, perdure.Conflict) {
		t.Errorf("first %v, same %v, later %v, other %v", first, same, later, other)
	}
	if got := s.results(); len(got) != 1 || !strings.Contains(got[0], "is ") {
		t.Errorf("got %q", got)
	}
}

// clientChecked pins that a client's result is treated like any other: it must be JSON, and is
// truncated (TL16). It must not mention tasks.
func clientChecked(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Agent: answers, Script: detachingScript(ask("client", "{text: a}"), ask("client", "{text: b}"))})
	s.say("go")
	_, first := s.requested(1)
	_, second := s.requested(2)
	big := `"` + strings.Repeat("x", 100_000) + `"`
	bigErr, again := s.gives(first, big), s.gives(first, big)
	failed := s.eng.Calls().Answer(s.ctx, second, "user", perdure.ToolResult{
		Error: "boom", ReadTasks: []perdure.TaskID{"task_0123456789abcdef0123456789abcdef"},
	})
	if bigErr != nil || again != nil || failed != nil {
		t.Fatalf("big %v, again %v, failed %v", bigErr, again, failed)
	}
	s.rest()

	got := s.results()
	if len(got) != 2 || len(got[0]) > 70_000 || got[1] != `{"error":"boom"}` {
		t.Errorf("%d results, the first of %d bytes", len(got), len(got[0]))
	}
	if done := facts[perdure.ToolCompleted](s); done[1].Status != perdure.StatusError ||
		done[1].Result.ErrorKind != perdure.ErrorTool || len(done[1].Result.ReadTasks) != 0 {
		t.Errorf("got %+v", done[1])
	}
}

func clientUnknown(t *testing.T, open Harness) { // AP11
	s := begin(t, open, Setup{Agent: answers, Script: detachingScript(ask("client", "{text: a}"), ask("hold", "{}"))})
	unknown := s.gives(perdure.CallKey{Session: s.id, Call: "call_0123456789abcdef0123456789abcdef"}, `1`)
	s.say("go")
	_, key := s.requested(1)
	foreign, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	stolen := s.gives(perdure.CallKey{Session: foreign.ID, Call: key.Call}, `1`)
	s.Entered(t, "hold", 1)
	own := s.gives(s.called("hold"), `1`)
	s.interrupt()
	s.rest()

	if !errors.Is(unknown, perdure.NotFound) || !errors.Is(stolen, perdure.NotFound) || own == nil {
		t.Errorf("unknown %v, foreign %v, the runtime's own %v", unknown, stolen, own)
	}
	s.results()
}

func clientWithout(t *testing.T, open Harness) { // AP11
	s := begin(t, open, Setup{Script: oneTool("client", "{text: a}")})
	s.say("go")
	s.rest()

	if got := s.onlyResult("client").Result; got.ErrorKind != perdure.ErrorDenied || !got.NeverStarted ||
		len(facts[perdure.ToolCallRequested](s)) != 0 || s.final() != "done" {
		t.Errorf("got %+v", got)
	}
}

func clientInterrupted(t *testing.T, open Harness) { // RC8
	s := begin(t, open, Setup{Agent: answers, Script: oneTool("client", "{text: a}")})
	s.say("go")
	_, key := s.requested(1)
	s.interrupt()
	s.rest()
	late := s.gives(key, `1`)

	if got := s.onlyResult("client"); got.Status != perdure.StatusInterrupted || !got.Result.NeverStarted ||
		!errors.Is(late, perdure.Conflict) {
		t.Errorf("got %+v; late: %v", got, late)
	}
	s.results()
}

func clientDeadline(t *testing.T, open Harness) { // AP11
	s := begin(t, open, Setup{Agent: answers, Script: oneTool("client_late", "{text: a}")})
	s.say("go")
	_, key := s.requested(1)
	s.rest()
	late := s.gives(key, `1`)

	if got := s.onlyResult("client_late"); got.Status != perdure.StatusTimeout ||
		!errors.Is(late, perdure.Conflict) || s.final() != "done" {
		t.Errorf("got %+v; late: %v", got, late)
	}
}

func clientSurvives(t *testing.T, open Harness) {
	s := begin(t, open, Setup{
		Agent: answers, Script: detachingScript(ask("client", "{text: a}"), ask("client_late", "{text: b}")),
	})
	s.say("go")
	_, key := s.requested(1)
	s.requested(2)
	s.crash()
	err := s.gives(key, `"here"`)
	s.rest()

	got := s.results()
	if err != nil || len(got) != 2 || got[0] != `"here"` || !strings.Contains(got[1], "Timed out after 1.5s") ||
		len(facts[perdure.ToolCallRequested](s)) != 2 {
		t.Errorf("%v; got %q", err, got)
	}
}

func connectionPauses(t *testing.T, open Harness) { // AP12
	s := begin(t, open, Setup{Agent: perdure.Agent{ClientConnections: true}, Script: oneTool("connect", "{}")})
	s.say("go")
	f, key := s.requested(1)
	s.crash()
	err := s.gives(key, `{"connected":"github"}`)
	s.rest()

	if got := s.results(); err != nil || f.Connection != "github" || len(got) != 1 ||
		got[0] != `{"connected":"github"}` || s.final() != "done" {
		t.Errorf("%v; requested %+v; got %q", err, f, got)
	}
}

func connectionResult(t *testing.T, open Harness) { // AP12, TL13
	s := begin(t, open, Setup{Script: oneTool("connect", "{}")})
	s.say("go")
	s.rest()

	if got := s.onlyResult("connect"); string(got.Result.Result) != `{"connection_required":"github"}` ||
		got.Result.ConnectionRequired != "github" {
		t.Errorf("got %+v", got)
	}
}

// waitingStatus pins AP11: work of the runtime continues while a call waits for the client.
func waitingStatus(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Agent: answers, Script: detachingScript(ask("client", "{text: a}"), ask("note", "{text: b}"))})
	s.say("go")
	_, key := s.requested(1)
	nth(s, 1, func(f perdure.ToolCompleted) bool { return f.Name == "note" })
	waiting, err := s.eng.Sessions().Get(s.ctx, s.id)
	awaits := facts[perdure.SessionAwaits](s)
	if err != nil || waiting.Status != perdure.SessionWaiting || len(awaits) != 1 || len(awaits[0].CallIDs) != 1 ||
		awaits[0].CallIDs[0] != key.Call {
		t.Errorf("the session is %s, %v; it awaits %+v", waiting.Status, err, awaits)
	}
	s.say("meanwhile") // it waits, and answers no call (DL11)
	if err := s.gives(key, `"here"`); err != nil {
		t.Fatal(err)
	}
	s.rest()

	idle, err := s.eng.Sessions().Get(s.ctx, s.id)
	if err != nil || idle.Status != perdure.SessionIdle || s.turns() != 1 || len(s.results()) != 2 {
		t.Errorf("the session is %s, %v, after %d turns", idle.Status, err, s.turns())
	}
}
