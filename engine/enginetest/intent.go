package enginetest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func intentLaws() []law {
	return []law{
		{"the_same_message_twice_is_one", sameMessage},
		{"the_same_session_id_twice_is_one_session", sameSession},
		{"refuses_what_a_user_may_not_send", refusesInput},
		{"steers_a_running_turn", steers},
		{"an_interrupting_message_starts_the_next_turn", interruptingMessage},
		{"follows_from_any_seq_without_a_gap", follows},
		{"resolves_an_unknown_call_and_tells_the_model", resolvesCall},
		{"calls_a_tool_outside_a_session", callsTool},
		{"answers_for_unknown_sessions_with_not_found", unknownSession},
	}
}

func sameMessage(t *testing.T, open Harness) { // N5, DL12
	s := begin(t, open, Setup{Script: "steps: [{text: hello, repeat: true}]"})
	message := perdure.Text("hi")
	message.ID = "message_0123456789abcdef0123456789abcdef"
	var sent []engine.Sent
	for i := range 3 {
		if i == 2 {
			s.rest() // the answer is in the journal, too
		}
		one, err := s.eng.Send(s.ctx, s.id, message)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, one)
	}
	other := perdure.Text("something else")
	other.ID = message.ID
	_, err := s.eng.Send(s.ctx, s.id, other)
	s.rest()

	if n := len(facts[perdure.MessageReceived](s)); n != 1 || !errors.Is(err, perdure.Conflict) {
		t.Errorf("%d received; other content: %v, want Conflict", n, err)
	}
	got, _ := s.events()[sent[0].Seq-1].Fact.(perdure.MessageReceived)
	if got.Message.ID != message.ID || sent[0].ID != message.ID || sent[1] != sent[0] || sent[2] != sent[0] {
		t.Errorf("sent %+v; event %d is %+v, want each to name the event of the message", sent, sent[0].Seq, got)
	}
}

func sameSession(t *testing.T, open Harness) { // N5
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})
	const id = "session_0123456789abcdef0123456789abcdef"
	agent := perdure.Agent{Name: "one", Metadata: map[string]string{"b": "2", "a": "1"}}
	first, err := s.eng.Sessions().CreateAs(s.ctx, id, agent)
	if err != nil || first.ID != id {
		t.Fatalf("got %+v, %v", first, err)
	}

	again, err := s.eng.Sessions().CreateAs(s.ctx, id, agent)
	_, other := s.eng.Sessions().CreateAs(s.ctx, id, perdure.Agent{Name: "another"})
	_, wrong := s.eng.Sessions().CreateAs(s.ctx, "message_0123456789abcdef0123456789abcdef", agent)

	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("the same again: got %+v, %v; want %+v", again, err, first)
	}
	if !errors.Is(other, perdure.Conflict) || !errors.Is(wrong, perdure.Invalid) {
		t.Errorf("another agent: %v, want Conflict; no session id: %v, want Invalid", other, wrong)
	}
}

func refusesInput(t *testing.T, open Harness) { // O4
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})
	for name, message := range map[string]perdure.Message{
		"empty": {Role: perdure.RoleUser},
		"text":  perdure.Text(""),
		"id":    {ID: "message_1", Parts: perdure.Text("x").Parts},
		"role":  {Role: perdure.RoleAgent, Parts: perdure.Text("x").Parts},
		"part":  {Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartToolResult}}},
		"image": {Parts: []perdure.Part{{Type: perdure.PartImage, Image: &perdure.Image{Base64: "?", MediaType: "image/png"}}}},
		"mode":  {Role: perdure.RoleUser, Parts: perdure.Text("x").Parts, Mode: "shout"},
	} {
		_, err := s.eng.Send(s.ctx, s.id, message)
		var got *perdure.MessageError
		if want := message.CheckInput(); !errors.As(err, &got) || got.Error() != want.Error() || !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if n := len(facts[perdure.MessageReceived](s)); n != 0 {
		t.Errorf("%d received", n)
	}
}

func steers(t *testing.T, open Harness) { // DL10
	s := begin(t, open, Setup{Script: `
steps:
  - calls: [{name: hold, args: {text: a}}]
  - text: "you said {{user}}"
    repeat: true
`})
	s.say("one")
	s.Entered(t, "hold", 1)
	s.say("two")
	s.Release("hold")
	s.rest()

	if turns := len(facts[perdure.TurnStarted](s)); turns != 1 || s.final() != "you said two" {
		t.Errorf("%d turns, final %q", turns, s.final())
	}
}

func interruptingMessage(t *testing.T, open Harness) { // DL10
	s := begin(t, open, Setup{Script: `
rules:
  - when: {user_contains: stop}
    text: stopped
steps:
  - calls: [{name: hold, args: {text: a}}]
  - text: never
    repeat: true
`})
	s.say("one")
	s.Entered(t, "hold", 1)
	message := perdure.Text("stop")
	message.Mode = perdure.ModeInterrupt
	if _, err := s.eng.Send(s.ctx, s.id, message); err != nil {
		t.Fatal(err)
	}
	s.rest()

	if canceled, turns := len(facts[perdure.TurnCanceled](s)), len(facts[perdure.TurnCompleted](s)); canceled != 1 ||
		turns != 1 || s.final() != "stopped" {
		t.Errorf("%d canceled, %d completed, final %q", canceled, turns, s.final())
	}
}

func follows(t *testing.T, open Harness) { // EV9, ST2
	s := begin(t, open, Setup{Script: oneTool("echo", "{text: a}")})
	s.say("hi")
	s.rest()
	whole := s.events()
	stop := errors.New("enough")

	for after := range whole {
		next := int64(after) + 1
		err := s.eng.Follow(s.ctx, s.id, int64(after), func(f engine.Frame) error {
			if f.Event == nil {
				return nil
			}
			if f.Event.Seq != next {
				t.Errorf("after %d: got seq %d, want %d", after, f.Event.Seq, next)
			}
			next++
			if next > int64(len(whole)) {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Fatalf("after %d: %v", after, err)
		}
	}
}

func resolvesCall(t *testing.T, open Harness) { // LG11
	s := begin(t, open, Setup{Script: `
rules:
  - when: {user_contains: and}
    text: "{{note}}"
  - when: {not_called: hold_charge}
    calls: [{name: hold_charge, args: {text: a}}]
steps: [{text: x, repeat: true}]
`})
	s.say("hi")
	s.Entered(t, "hold_charge", 1)
	s.crash()
	s.rest()
	calls, err := s.eng.Calls().List(s.ctx, s.id)
	if err != nil || len(calls) != 1 || calls[0].State != perdure.CallUnknown {
		t.Fatalf("got %+v, %v", calls, err)
	}

	word := engine.Resolution{Answer: perdure.ResolveHappened, Result: []byte(`{"charged":"a"}`), By: "operator"}
	err = s.eng.Calls().Resolve(s.ctx, calls[0].Key, word)
	again := s.eng.Calls().Resolve(s.ctx, calls[0].Key, word)
	s.say("and?")
	s.rest()

	if err != nil || !errors.Is(again, perdure.Conflict) {
		t.Errorf("got %v, again %v", err, again)
	}
	if n := len(s.fold().UnknownCalls); n != 0 {
		t.Errorf("%d still unknown", n)
	}
	if got := s.final(); got == "" || got[:10] != "The outcom" {
		t.Errorf("the model received %q", got)
	}
}

func callsTool(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})

	said, err := s.eng.Tools().Call(s.ctx, "echo", []byte(`{"text":"a"}`))
	_, unknown := s.eng.Tools().Call(s.ctx, "nonsense", nil)
	_, claimed := s.eng.Tools().Call(s.ctx, "charge", []byte(`{"text":"a"}`))

	if err != nil || string(said.Result) != `{"said":"a"}` {
		t.Errorf("got %s, %v", said.Result, err)
	}
	if !errors.Is(unknown, perdure.NotFound) || !errors.Is(claimed, perdure.Invalid) || len(s.Effects("charge")) != 0 {
		t.Errorf("unknown tool: %v; at_most_once: %v", unknown, claimed)
	}
}

func unknownSession(t *testing.T, open Harness) { // ER2
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})
	const id = perdure.SessionID("session_00000000000000000000000000000000")
	_, session := s.eng.Sessions().Get(s.ctx, id)
	_, events := s.eng.Events(s.ctx, id, 0, 0)
	_, send := s.eng.Send(s.ctx, id, perdure.Text("x"))
	for name, err := range map[string]error{
		"session": session, "events": events, "send": send,
		"interrupt": s.eng.Sessions().Interrupt(s.ctx, id, "user", ""),
		"wait":      s.eng.Sessions().WaitIdle(s.ctx, id),
	} {
		if !errors.Is(err, perdure.NotFound) {
			t.Errorf("%s: got %v, want NotFound", name, err)
		}
	}
}
