package mcpserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/mcpserver"
)

// builder answers with its instructions, after it has held if they say so.
const builder = `
rules:
  - when: {last_role: user, last_contains: hold}
    calls: [{name: hold_note, args: {text: a}}]
  - when: {last_role: user, last_contains: fail}
    error: {code: processing_error, text: broken}
steps:
  - text: "one: {{user}}"
  - text: "two: {{user}}"
  - text: "three: {{user}}"
    repeat: true
`

func newAsk(t *testing.T) *mcpserver.Ask {
	t.Helper()
	a, err := mcpserver.NewAsk("build", "Builds things.", perdure.Agent{Instructions: "build"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// saidOf is what a finished ask_build answered, and in which session.
func saidOf(t *testing.T, done object) (answer, session string) {
	t.Helper()
	result, _ := done["result"].(object)
	if result == nil {
		result = done
	}
	structured, _ := result["structuredContent"].(object)
	answer, _ = structured["answer"].(string)
	session, _ = structured["session"].(string)
	if session == "" {
		t.Fatalf("no answer in %v", done)
	}
	return answer, session
}

// sessionsOf counts the sessions with the agent.
func (r *rig) sessionsOf(name string) (found []engine.Session) {
	r.t.Helper()
	all, err := r.eng.Sessions().List(context.Background(), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range all {
		first, err := r.eng.Events(context.Background(), s.ID, 0, 1)
		if err != nil {
			r.t.Fatal(err)
		}
		if made, ok := first[0].Fact.(perdure.SessionCreated); ok && made.Agent.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func TestAskAgent(t *testing.T) {
	t.Parallel()
	r := newTalking(t, builder, mcpserver.Config{}, newAsk(t))
	asks := func(as questionPart, args object) object {
		t.Helper()
		made := r.call(as, "ask_build", args, nil)
		return r.until(as, made["taskId"].(string), "completed") // never pure: always a task (M2)
	}
	answer, session := saidOf(t, asks(withTasks, object{"message": "a house"}))
	if answer != "one: a house" {
		t.Errorf("got %q", answer)
	}
	answer, again := saidOf(t, asks(withTasks, object{"message": "a roof", "session": session}))
	if answer != "two: a roof" || again != session {
		t.Errorf("got %q in %s, want the same session to continue", answer, again)
	}
	// Without Tasks the answer comes in the call itself (M9).
	if answer, other := saidOf(t, r.call(questionPart{}, "ask_build", object{"message": "a shed"}, nil)); answer != "one: a shed" || other == session {
		t.Errorf("got %q in %s", answer, other)
	}
	// Nobody can distinguish another principal's session from a missing one (M5).
	stranger := questionPart{as: "other", tasks: true}
	for _, id := range []string{session, strings.Repeat("0", len(session)), "sess_x", string(r.sessionsOf("mcp")[0].ID)} {
		got := asks(stranger, object{"message": "hello", "session": id})["result"].(object)
		if got["isError"] != true || textOf(got) != "You have no session "+id+" with this agent." {
			t.Errorf("session %s: got %v", id, got)
		}
	}
	// A turn that fails is a tool error that names the session.
	got := asks(withTasks, object{"message": "fail", "session": session})["result"].(object)
	if got["isError"] != true || !strings.Contains(textOf(got), session) {
		t.Errorf("got %v", got)
	}
	if n := len(r.sessionsOf("build")); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

// TestAskIsItsCallers: the question of an agent belongs to the principal that called it. Outside of
// a session, where callers cannot be distinguished, the agent is not asked.
func TestAskIsItsCallers(t *testing.T) {
	t.Parallel()
	r := newTalking(t, builder, mcpserver.Config{}, newAsk(t))
	owner := engine.Owner{Org: "acme", User: "u"}
	caller, err := r.eng.Sessions().Create(engine.WithOwner(t.Context(), owner), perdure.Agent{Name: "caller"})
	if err != nil {
		t.Fatal(err)
	}
	call, err := r.eng.HostCalls().Start(t.Context(), engine.HostCallRequest{Session: caller.ID, Tool: "ask_build", Args: []byte(`{"message":"a house"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := r.eng.Tasks().Wait(t.Context(), call.Task.ID); err != nil || done.State != perdure.TaskSucceeded {
		t.Fatalf("got %+v, %v", done, err)
	}
	if made := r.sessionsOf("build"); len(made) != 1 || made[0].Org != owner.Org || made[0].User != owner.User {
		t.Errorf("the session asked in is %+v, want one of %+v", made, owner)
	}

	outside, err := r.eng.Tools().Call(t.Context(), "ask_build", []byte(`{"message":"a secret"}`))
	if err != nil || !strings.Contains(outside.Error, "needs a calling session") {
		t.Errorf("outside of a session: got %+v, %v", outside, err)
	}
	if n := len(r.sessionsOf("build")); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestAskAgentReissue: the same call, over deaths of the runtime, is one session with one message,
// and one answer (M4).
func TestAskAgentReissue(t *testing.T) {
	t.Parallel()
	r := newTalking(t, builder, mcpserver.Config{}, newAsk(t))
	key := object{"io.github.perdure/key": "k"}
	id := r.call(withTasks, "ask_build", object{"message": "hold"}, key)["taskId"].(string)
	for n := range 4 { // more often than a call may be run: it is found again, not run again
		r.Entered(t, "hold_note", 1+min(n, 1))
		r.restart()
		if again := r.call(withTasks, "ask_build", object{"message": "hold"}, key)["taskId"]; again != id {
			t.Fatalf("the same key is %v, want %s", again, id)
		}
	}
	r.ReleaseAll()
	if answer, _ := saidOf(t, r.until(withTasks, id, "completed")); answer != "two: hold" {
		t.Errorf("got %q", answer)
	}
	sessions := r.sessionsOf("build")
	if len(sessions) != 1 {
		t.Fatalf("%d sessions, want 1", len(sessions))
	}
	events, err := r.eng.Events(t.Context(), sessions[0].ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for _, e := range events {
		if _, ok := e.Fact.(perdure.MessageReceived); ok {
			messages++
		}
	}
	if messages != 1 {
		t.Errorf("%d messages, want 1", messages)
	}
}

func TestAskAgentCancel(t *testing.T) {
	t.Parallel()
	r := newTalking(t, builder, mcpserver.Config{}, newAsk(t))
	id := r.call(withTasks, "ask_build", object{"message": "hold"}, nil)["taskId"].(string)
	r.Entered(t, "hold_note", 1)
	if got := r.until(withTasks, id, "working"); got["statusMessage"] == nil {
		t.Errorf("no word of what it does: %v", got)
	}
	r.want(withTasks, "tasks/cancel", object{"taskId": id})
	r.until(withTasks, id, "cancelled")
	session := r.sessionsOf("build")[0].ID
	if err := r.eng.Sessions().WaitIdle(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	events, err := r.eng.Events(t.Context(), session, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if last, ok := lastTurnEnd(events).(perdure.TurnCanceled); !ok || last.By != "mcp" {
		t.Errorf("the turn ended with %+v, want it canceled", lastTurnEnd(events))
	}
}

// lastTurnEnd is how the last turn ended; nil: none did.
func lastTurnEnd(events []perdure.Event) (end perdure.Fact) {
	for _, e := range events {
		switch e.Fact.(type) {
		case perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
			end = e.Fact
		}
	}
	return end
}

// TestAskRefusesMessage: a message that may not be sent is refused for the reason that the root
// gives, and starts no session.
func TestAskRefusesMessage(t *testing.T) {
	t.Parallel()
	r := newTalking(t, builder, mcpserver.Config{}, newAsk(t))
	var reason *perdure.MessageError
	if !errors.As(perdure.Text("").CheckInput(), &reason) {
		t.Fatal("an empty message may be sent")
	}
	id := r.call(withTasks, "ask_build", object{"message": ""}, nil)["taskId"].(string)
	got := r.until(withTasks, id, "completed")["result"].(object)
	if got["isError"] != true || textOf(got) != "Invalid message: "+reason.Text {
		t.Errorf("got %v, want %s", got, reason.Text)
	}
	if n := len(r.sessionsOf("build")); n != 0 {
		t.Errorf("%d sessions, want none", n)
	}
}

func TestAskNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "A", "a b", "_a", strings.Repeat("a", 61), "a\n"} {
		if _, err := mcpserver.NewAsk(name, "", perdure.Agent{}); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}
