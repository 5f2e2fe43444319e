package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// answering returns a tool that answers with text, and has a soft budget of its own.
func answering(name, text string, soft time.Duration) tool.Tool {
	spec := tool.Spec{Name: name, Description: "Answers.", Class: perdure.Pure, SoftBudget: soft}
	return tool.New(spec, func(context.Context, struct{}, tool.Env) (string, error) { return text, nil })
}

// limitScript calls both tools once.
const limitScript = `
steps:
  - calls: [{name: plain, args: {}}, {name: own, args: {}}]
  - text: done
`

// limited runs limitScript with a configuration and an agent, and returns the events.
func limited(t *testing.T, cfg local.Config, agent perdure.Agent) []perdure.Event {
	t.Helper()
	m, err := scripted.Parse("limits", []byte(limitScript))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Model = memory.New(memory.Config{}), m
	cfg.Tools = tool.NewRegistry(answering("plain", strings.Repeat("x", 5000), 0), answering("own", "y", time.Minute))
	s := converse(t, cfg, agent, "go")
	events, err := store.Read(t.Context(), cfg.Store, func(r store.Reader) ([]perdure.Event, error) {
		return r.Journal().Events(s.ID, 0, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// softBudgetsIn returns the soft budgets of the planned calls, by tool.
func softBudgetsIn(events []perdure.Event) map[string]time.Duration {
	planned := map[string]time.Duration{}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.ActStarted); ok {
			for _, c := range f.Calls {
				planned[c.Name] = c.SoftBudget
			}
		}
	}
	return planned
}

// TestSoftBudgets: the configuration sets the soft budget of single tools, and an agent only
// shortens it.
func TestSoftBudgets(t *testing.T) {
	t.Parallel()
	single := func(of map[string]time.Duration) local.Timing { return local.Timing{SoftBudgets: of} }
	shorter := func(of map[string]int64) perdure.Agent {
		return perdure.Agent{Limits: perdure.AgentLimits{SoftBudgetsMS: of}}
	}
	for _, c := range []struct {
		name       string
		timing     local.Timing
		agent      perdure.Agent
		plain, own time.Duration
	}{
		{"defaults", local.Timing{}, perdure.Agent{}, 10 * time.Minute, time.Minute},
		{"of the engine", local.Timing{SoftBudget: time.Hour}, perdure.Agent{}, time.Hour, time.Minute},
		{"of the agent", local.Timing{}, perdure.Agent{SoftBudgetMS: 5000}, 5 * time.Second, time.Minute},
		{"of single tools", single(map[string]time.Duration{"plain": 7 * time.Second, "own": 8 * time.Second}),
			perdure.Agent{SoftBudgetMS: 5000}, 7 * time.Second, 8 * time.Second},
		{"never", single(map[string]time.Duration{"own": tool.Never}), perdure.Agent{}, 10 * time.Minute, 0},
		{"agent shortens", single(map[string]time.Duration{"own": tool.Never}), shorter(map[string]int64{"own": 3000}),
			10 * time.Minute, 3 * time.Second},
		{"agent cannot lengthen", local.Timing{}, shorter(map[string]int64{"own": 3_600_000, "plain": 3_600_000}),
			10 * time.Minute, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := softBudgetsIn(limited(t, local.Config{Timing: c.timing}, c.agent))
			if got["plain"] != c.plain || got["own"] != c.own {
				t.Errorf("got %v, want %v and %v", got, c.plain, c.own)
			}
		})
	}
}

// TestResultBytes: a result beyond the limit is cut, and the whole one is in a file.
func TestResultBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit int
		cut   bool
	}{{0, false}, {2048, true}, {1 << 30, false}} {
		events := limited(t, local.Config{Limits: local.Limits{ResultBytes: c.limit}}, perdure.Agent{})
		for _, e := range events {
			if f, ok := e.Fact.(perdure.ToolCompleted); ok && f.Name == "plain" {
				if cut := len(f.Result.Result) < 5000; cut != c.cut || cut && len(f.Result.Result) > c.limit {
					t.Errorf("limit %d: a result of %d bytes", c.limit, len(f.Result.Result))
				}
			}
		}
	}
}

// TestAgentCeilings: an agent that sets no steps, calls and turns has those of the engine, and no
// agent has more.
func TestAgentCeilings(t *testing.T) {
	t.Parallel()
	limits := local.Limits{Iterations: 7, ParallelCalls: 3, Continuations: 2}
	for _, c := range []struct {
		limits     local.Limits
		own, wants int
	}{{limits, 0, 7}, {limits, 4, 4}, {limits, 900, 7}, {local.Limits{}, 900, 900}, {local.Limits{}, 0, 0}} {
		eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: &heard{},
			Tools: tool.NewRegistry(), Limits: c.limits})
		if err != nil {
			t.Fatal(err)
		}
		id := perdure.SessionID("session_" + strings.Repeat("1", 32))
		for range 2 { // a repeated request finds its session
			if _, err = eng.Sessions().CreateAs(t.Context(), id, perdure.Agent{MaxIterations: c.own}); err != nil {
				t.Fatal(err)
			}
		}
		events, err := eng.Events(t.Context(), id, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		agent := events[0].Fact.(perdure.SessionCreated).Agent
		if agent.MaxIterations != c.wants || agent.MaxParallelCalls != c.limits.ParallelCalls {
			t.Errorf("%d of %d: got %d iterations and %d calls", c.own, c.limits.Iterations, agent.MaxIterations,
				agent.MaxParallelCalls)
		}
	}
}

// TestWrongAgentLimits: a session of an agent whose limits are none is refused.
func TestWrongAgentLimits(t *testing.T) {
	t.Parallel()
	eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: &heard{}, Tools: tool.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []perdure.AgentLimits{
		{SlotsPerSession: -1}, {ApprovalExpiryMS: -5}, {SoftBudgetsMS: map[string]int64{"": 5}},
		{SoftBudgetsMS: map[string]int64{"bash": -1}},
	} {
		if _, err := eng.Sessions().Create(t.Context(), perdure.Agent{Limits: wrong}); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%+v: got %v", wrong, err)
		}
	}
}

// TestSessionLimit: each new session has the budget of the configuration, in the commit that
// creates it; a repeated request sets it once.
func TestSessionLimit(t *testing.T) {
	t.Parallel()
	eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: &heard{},
		Tools: tool.NewRegistry(), Billing: local.Billing{SessionLimit: budget.Whole(3)}})
	if err != nil {
		t.Fatal(err)
	}
	id := perdure.SessionID("session_" + strings.Repeat("2", 32))
	for range 2 {
		if _, err := eng.Sessions().CreateAs(t.Context(), id, perdure.Agent{}); err != nil {
			t.Fatal(err)
		}
	}

	found, err := eng.Budgets().List(t.Context(), engine.BudgetFilter{Scope: budget.Session, Subject: string(id)})
	if err != nil || len(found) != 1 || found[0].Limit != budget.Whole(3) || found[0].Currency != budget.USD {
		t.Fatalf("got %+v, %v", found, err)
	}
	lines, err := eng.Budgets().Entries(t.Context(), found[0].ID, 0)
	if err != nil || len(lines) != 1 {
		t.Errorf("got %+v, %v", lines, err)
	}
}

// onePort is a connection of the program's own.
type onePort struct{ user string }

func (p onePort) Token(context.Context, string) (string, error) { return "token of " + p.user, nil }
func (p onePort) Owner(context.Context, string) (string, error) { return p.user, nil }
func (p onePort) Metadata(context.Context, string) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}

// TestReplaceOnePort: a program that replaces one port keeps all others of the store, also those
// that need the engine. The replaced port belongs to the user of the session.
func TestReplaceOnePort(t *testing.T) {
	t.Parallel()
	look := tool.New(tool.Spec{Name: "look", Description: "Looks.", Class: perdure.Pure, NeedsEnv: true},
		func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
			token, err := env.Connections.Token(ctx, "any")
			if err == nil {
				err = env.Values.SetValue(ctx, "k", token)
			}
			if err != nil {
				return "", err
			}
			for name, there := range map[string]bool{
				"Secrets": env.Secrets != nil, "Images": env.Images != nil, "Resources": env.Resources != nil,
				"Leases": env.Leases != nil, "Session": env.Session != nil, "Messages": env.Messages != nil,
				"Credentials": env.Credentials != nil, "Budgets": env.Budgets != nil,
			} {
				if !there {
					return "", fmt.Errorf("no port %s", name)
				}
			}
			return token, nil
		})
	m, err := scripted.Parse("ports", []byte("steps: [{calls: [{name: look, args: {}}]}, {text: done}]"))
	if err != nil {
		t.Fatal(err)
	}
	s := converse(t, local.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tool.NewRegistry(look),
		Ports: local.Ports{Replace: func(_ perdure.SessionID, call tool.Call, own tool.Ports) tool.Ports {
			own.Connections = onePort{"[" + call.User + "]"}
			return own
		}}}, perdure.Agent{}, "go")
	if got := resultsOf(s); len(got) != 1 || got[0] != `"token of []"` {
		t.Errorf("got %q", got)
	}
}
