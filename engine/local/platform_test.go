package local_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/tool"
)

func platformOf(t *testing.T, h *house) tool.Platform {
	t.Helper()
	p, err := h.Platform("https://runtime.test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPlatformDirectory: harnesses and agents are created, changed, copied and deleted, each
// against the version that was read (PL1).
func TestPlatformDirectory(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: done\n", nil)
	p, ctx := platformOf(t, h), t.Context()

	made, err := p.CreateHarness(ctx, agent.Harness{Name: "new", Parent: h.root.ID, Overlay: agent.Overlay{SystemPrompt: "New."}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.CreateHarness(ctx, made)
	differ(t, "harness again", []any{again, err}, []any{made, nil})
	other := made
	other.Name = "other"
	if _, err := p.CreateHarness(ctx, other); !errors.Is(err, perdure.Conflict) {
		t.Errorf("another harness of the id: got %v, want a conflict", err)
	}
	updated, err := p.UpdateHarness(ctx, other)
	differ(t, "updated", []any{updated.Name, updated.Version, err}, []any{"other", int64(2), nil})
	if _, err := p.UpdateHarness(ctx, other); !errors.Is(err, perdure.Conflict) {
		t.Errorf("update of an old version: got %v, want a conflict", err)
	}
	twin, err := p.CopyHarness(ctx, made.ID, "twin")
	differ(t, "twin", []any{twin.Name, twin.Parent, twin.Overlay, twin.Version, err}, []any{"twin", h.root.ID, made.Overlay, int64(1), nil})

	reader, err := p.CreateAgent(ctx, agent.Agent{Name: "writer", Harness: twin.ID})
	if err != nil {
		t.Fatal(err)
	}
	same, err := p.CreateAgent(ctx, reader)
	differ(t, "agent again", []any{same, err}, []any{reader, nil})
	reader.Overlay.SystemPrompt = "Write."
	reader, err = p.UpdateAgent(ctx, reader)
	differ(t, "agent", []any{reader.Version, err}, []any{int64(2), nil})
	got, found, err := p.Agent(ctx, reader.ID)
	differ(t, "agent as read", []any{got, found, err}, []any{reader, true, nil})

	for range 2 { // a second time there is none
		err := errors.Join(p.DeleteHarness(ctx, made.ID), p.DeleteAgent(ctx, reader.ID))
		if updated.Status == agent.Active && err != nil || updated.Status == agent.Deleted && !errors.Is(err, perdure.NotFound) {
			t.Errorf("delete what was %s: got %v", updated.Status, err)
		}
		updated.Status = agent.Deleted
	}
	harnesses, err := p.Harnesses(ctx, agent.StatusFilter{})
	differ(t, "harnesses", []any{len(harnesses), err}, []any{3, nil})
	agents, err := p.Agents(ctx, agent.StatusFilter{Status: agent.Deleted})
	differ(t, "deleted agents", []any{len(agents), err}, []any{1, nil})

	_, found, err = p.Harness(ctx, core.NewID[perdure.HarnessID]())
	differ(t, "unknown harness", []any{found, err}, []any{false, nil})
	unknown := agent.Agent{ID: core.NewID[perdure.AgentID](), Name: "x"}
	_, failed := p.UpdateAgent(ctx, unknown)
	_, broken := p.CopyHarness(ctx, core.NewID[perdure.HarnessID](), "x")
	_, wrong := p.UpdateHarness(ctx, agent.Harness{ID: core.NewID[perdure.HarnessID](), Name: "x"})
	for _, err := range []error{failed, broken, wrong, p.DeleteAgent(ctx, unknown.ID)} {
		if !errors.Is(err, perdure.NotFound) {
			t.Errorf("got %v, want that there is none", err)
		}
	}
}

// TestPlatformSessions: sessions are created, used, waited for and deleted (PL1).
func TestPlatformSessions(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: hello\n  - error: {code: provider_misconfigured}\n", nil)
	p, ctx := platformOf(t, h), t.Context()

	s, err := p.CreateSession(ctx, tool.SessionRequest{Agent: h.agent.ID, Title: "one", Locale: "de"})
	if err != nil {
		t.Fatal(err)
	}
	differ(t, "session", []any{s.Title, s.Agent, s.Harness, s.Status}, []any{"one", h.agent.ID, h.leaf.ID, perdure.SessionStarted})
	for _, want := range []tool.WaitOutcome{tool.WaitIdle, tool.WaitError} {
		if _, err := p.Send(ctx, s.ID, "go"); err != nil {
			t.Fatal(err)
		}
		rest, err := p.WaitIdle(ctx, s.ID, time.Minute)
		differ(t, "rest", []any{rest, err}, []any{want, nil})
	}
	page, err := p.Messages(ctx, s.ID, 0, 10)
	if err != nil || len(page.Messages) < 3 || page.Messages[1].Text() != "hello" {
		t.Errorf("messages: got %+v, %v", page.Messages, err)
	}
	report, err := p.ContextOf(ctx, s.ID)
	if err != nil || len(report.Sections) == 0 {
		t.Errorf("context: got %+v, %v", report, err)
	}

	greeter, err := p.CreateSession(ctx, tool.SessionRequest{Blueprint: "greeter", Config: json.RawMessage(`{"who":"Ann"}`)})
	if err != nil {
		t.Fatal(err)
	}
	first, err := h.Events(ctx, greeter.ID, 0, 1)
	if err != nil || !strings.Contains(first[0].Fact.(perdure.SessionCreated).Agent.Instructions, `Greet {"who":"Ann"}`) {
		t.Errorf("greeter: got %+v, %v", first, err)
	}
	list, err := p.Sessions(ctx, 0)
	differ(t, "sessions", []any{len(list), err}, []any{2, nil})
	if err := p.DeleteSession(ctx, greeter.ID); err != nil {
		t.Error(err)
	}
	_, found, err := p.Session(ctx, greeter.ID)
	differ(t, "deleted", []any{found, err}, []any{false, nil})
	none, err := p.Messages(ctx, greeter.ID, 0, 10)
	differ(t, "messages of none", []any{len(none.Messages), err}, []any{0, nil})
	if _, err := p.WaitIdle(ctx, greeter.ID, time.Second); !errors.Is(err, perdure.NotFound) {
		t.Errorf("wait for none: got %v", err)
	}
}

// TestPlatformTimeout: a wait times out while the session is running.
func TestPlatformTimeout(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - calls: [{name: reach}]\n  - text: done\n", nil)
	for range cap(h.reached) {
		h.reached <- perdure.NetworkList{} // so that the tool waits
	}
	p, ctx := platformOf(t, h), t.Context()
	s, err := p.CreateSession(ctx, tool.SessionRequest{Agent: h.agent.ID})
	if err == nil {
		_, err = p.Send(ctx, s.ID, "go")
	}
	if err != nil {
		t.Fatal(err)
	}

	rest, err := p.WaitIdle(ctx, s.ID, 50*time.Millisecond)
	differ(t, "rest", []any{rest, err}, []any{tool.WaitTimeout, nil})

	for range cap(h.reached) {
		<-h.reached
	}
	rest, err = p.WaitIdle(ctx, s.ID, time.Minute)
	differ(t, "rest", []any{rest, err}, []any{tool.WaitIdle, nil})
}

// TestPlatformCatalogue: the building blocks of agents can be listed.
func TestPlatformCatalogue(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: done\n", nil)
	p := platformOf(t, h)
	for search, want := range map[string][]tool.CapabilityEntry{
		"":     {{ID: "maths", Name: "Sums", Tools: []string{"sum"}}},
		"SUM":  {{ID: "maths", Name: "Sums", Tools: []string{"sum"}}},
		"none": {},
	} {
		got, err := p.Capabilities(t.Context(), search)
		differ(t, "capabilities", []any{got, err}, []any{want, nil})
	}
	blueprints, err := p.Blueprints(t.Context())
	if err != nil || len(blueprints) != 1 || blueprints[0].Name != "greeter" || len(blueprints[0].Schema) == 0 {
		t.Errorf("blueprints: got %+v, %v", blueprints, err)
	}
	differ(t, "base URL", p.BaseURL(), "https://runtime.test")
}
