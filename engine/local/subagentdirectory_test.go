package local_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/defaults"
)

// toolReader is a model that notes what it reads about spawn_subagent.
type toolReader struct {
	model.Model
	mu   sync.Mutex
	read []string // guarded by mu
}

func (l *toolReader) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	for _, t := range req.Tools {
		if t.Name == "spawn_subagent" {
			l.mu.Lock()
			l.read = append(l.read, t.Description)
			l.mu.Unlock()
		}
	}
	return l.Model.Stream(ctx, req)
}

// last returns the latest description.
func (l *toolReader) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.read) == 0 {
		return ""
	}
	return l.read[len(l.read)-1]
}

// bureau is an engine whose sessions may name agents.
type bureau struct {
	*testing.T
	eng   *local.Engine
	model *toolReader
}

// newBureau opens an engine. A session that reads "hire NAME" starts a subagent of the agent NAME
// and repeats what it gets; a subagent names the tools that it has called.
func newBureau(t *testing.T, cfg local.Config) *bureau {
	t.Helper()
	m, err := scripted.Parse("bureau", []byte(`
rules:
  - when: {user_contains: the piece, not_called: read_file}
    calls: [{name: read_file, args: {path: /brief}}]
  - when: {user_contains: the piece}
    text: "I read: {{last}}"
  - when: {last_matches: "^hire [^ ]+$"}
    calls: [{name: spawn_subagent, args: {name: piece, task: do the piece, agent: "{{slice (user) 5}}"}}]
  - when: {last_role: tool_result}
    text: "{{last}}"
steps: [{text: "Hm.", repeat: true}]
`))
	if err != nil {
		t.Fatal(err)
	}
	b := &bureau{T: t, model: &toolReader{Model: m}}
	tools, err := defaults.Registry(defaults.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Model, cfg.Tools, cfg.Timing.Drain = memory.New(memory.Config{}), b.model, tools, -1
	if b.eng, err = local.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bureau) put(name string, version int64, o agent.Overlay) engine.AgentEntry {
	b.Helper()
	kept, err := b.eng.Agents().Put(b.Context(), engine.AgentWrite{Name: name, Version: version, Overlay: o})
	if err != nil {
		b.Fatal(err)
	}
	return kept
}

// say starts a session that may have subagents, sends it a text, and returns its answer.
func (b *bureau) say(ctx context.Context, text string) (perdure.SessionID, string) {
	b.Helper()
	s, err := b.eng.Sessions().Create(ctx, perdure.Agent{Capabilities: []string{tool.AgentsCapability}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err = b.eng.Send(ctx, s.ID, perdure.Text(text)); err == nil {
		err = b.eng.Sessions().WaitIdle(ctx, s.ID)
	}
	if err != nil {
		b.Fatal(err)
	}
	return s.ID, lastSaid(b.T, b.eng, s.ID)
}

// lastSaid returns the last text of a session's agent.
func lastSaid(t *testing.T, eng *local.Engine, id perdure.SessionID) (answer string) {
	t.Helper()
	events, err := eng.Events(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		if f, ok := event.Fact.(perdure.OutputCompleted); ok && f.Message.Text() != "" {
			answer = f.Message.Text()
		}
	}
	return answer
}

// child returns the agent of the only subagent of a session.
func (b *bureau) child(parent perdure.SessionID) perdure.Agent {
	b.Helper()
	all, err := b.eng.Sessions().List(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range all {
		if s.Parent == parent {
			events, err := b.eng.Events(b.Context(), s.ID, 0, 1)
			if err != nil {
				b.Fatal(err)
			}
			return events[0].Fact.(perdure.SessionCreated).Agent
		}
	}
	b.Fatal("there is no subagent")
	return perdure.Agent{}
}

// TestSubagentOfAStoredAgent: the model reads the names of the agents, and a subagent has the
// configuration of the one that it names, with its files, and at most the tools of its parent.
func TestSubagentOfAStoredAgent(t *testing.T) {
	t.Parallel()
	b := newBureau(t, local.Config{})
	kept := b.put("reader", 0, agent.Overlay{
		Description: "Reads the brief.\n\x1b[31m", SystemPrompt: "You read.", Tools: []string{"read_file", "kv_store"},
		InitialFiles: []agent.File{{Path: "/brief", Content: "forty-two"}},
	})
	gone := b.put("gone", 0, agent.Overlay{})
	if err := b.eng.Agents().Delete(t.Context(), string(gone.ID), 0); err != nil {
		t.Fatal(err)
	}

	id, answer := b.say(t.Context(), "hire reader")

	if !strings.Contains(answer, "forty-two") {
		t.Errorf("answer %q", answer)
	}
	if got := b.model.last(); !strings.HasSuffix(got, "\n\nAgents that you can name:\n- reader: Reads the brief. [31m") {
		t.Errorf("the model reads %q", got)
	}
	child := b.child(id)
	if string(child.ID) != kept.ID || child.Name != "reader" || !strings.Contains(child.Instructions, "You read.") || !child.Subagent || child.Title != "piece" {
		t.Errorf("agent %+v", child)
	}
	if fmt.Sprint(child.Tools) != "[read_file]" { // kv_store is not among the parent's
		t.Errorf("tools %v", child.Tools)
	}
	byID, answer := b.say(t.Context(), "hire "+string(kept.ID))
	if !strings.Contains(answer, "forty-two") || string(b.child(byID).ID) != kept.ID {
		t.Errorf("by id: answer %q", answer)
	}

	b.put("reader", kept.Version, agent.Overlay{Description: "Reads everything.", SystemPrompt: "You read all."})
	b.say(t.Context(), "hello")
	if got := b.model.last(); !strings.HasSuffix(got, "\n- reader: Reads everything.") {
		t.Errorf("after a change the model reads %q", got)
	}
	if got := b.child(id); !strings.Contains(got.Instructions, "You read.") {
		t.Errorf("the subagent has changed: %q", got.Instructions)
	}
}

// TestUnknownSubagent: the refusal names the agents that there are, and nothing was started.
func TestUnknownSubagent(t *testing.T) {
	t.Parallel()
	b := newBureau(t, local.Config{Catalogue: local.Catalogue{
		Agents: map[string]perdure.Agent{"house": {}},
		Providers: local.Providers{Agents: func() (map[string]local.ConfiguredAgent, error) {
			return map[string]local.ConfiguredAgent{"build": {Description: "Builds."}}, nil
		}},
	}})
	b.put("reader", 0, agent.Overlay{})
	b.put("lost", 0, agent.Overlay{Tools: []string{"none_such"}})

	_, answer := b.say(t.Context(), "hire nobody")
	if want := `There is no agent \"nobody\". Name one of these, or leave agent out for an agent like yourself: build, house, lost, reader.`; !strings.Contains(answer, want) {
		t.Errorf("got %q", answer)
	}
	if _, answer = b.say(t.Context(), "hire lost"); !strings.Contains(answer, "No subagent was started") || !strings.Contains(answer, "none_such") {
		t.Errorf("got %q", answer)
	}
	for _, name := range []string{"build", "house"} {
		if _, answer = b.say(t.Context(), "hire "+name); !strings.Contains(answer, "File not found: /brief") {
			t.Errorf("%s: got %q", name, answer)
		}
	}
	sessions, err := b.eng.Sessions().List(t.Context(), 0)
	if err != nil || len(sessions) != 6 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
}

// TestSubagentOfAnotherOrg: stored and configured agents belong to the default org.
func TestSubagentOfAnotherOrg(t *testing.T) {
	t.Parallel()
	b := newBureau(t, local.Config{Catalogue: local.Catalogue{Agents: map[string]perdure.Agent{"house": {}}}})
	kept := b.put("reader", 0, agent.Overlay{})
	other := engine.WithOwner(t.Context(), engine.Owner{Org: "other"})

	for _, name := range []string{"reader", string(kept.ID)} {
		_, answer := b.say(other, "hire "+name)
		if !strings.Contains(answer, "There is no agent") || !strings.Contains(answer, "yourself: house.") {
			t.Errorf("got %q", answer)
		}
	}
	if got := b.model.last(); !strings.HasSuffix(got, "Agents that you can name:\n- house") {
		t.Errorf("the model reads %q", got)
	}
}

// TestManySubagents: the list is bounded, and says how much is left out.
func TestManySubagents(t *testing.T) {
	t.Parallel()
	b := newBureau(t, local.Config{})
	for i := range 60 {
		b.put(fmt.Sprintf("agent-%02d", i), 0, agent.Overlay{Description: strings.Repeat("é", 300)})
	}

	_, answer := b.say(t.Context(), "hire nobody")

	if !strings.Contains(answer, "agent-49, and 10 more.") {
		t.Errorf("got %q", answer)
	}
	got := b.model.last()
	if len(got) > 6<<10 || !strings.Contains(got, "…\n- agent-01: ") || !strings.Contains(got, " more are not listed here. A name that you know can be used as well.)") {
		t.Errorf("the model reads %d bytes: %.500q", len(got), got)
	}
}
