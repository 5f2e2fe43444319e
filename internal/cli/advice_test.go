package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/webhook"
)

// counter is a scene with one object of each noun, in which every change is refused.
type counter struct {
	*scene
	refusal error
}

// counterCalls implements engine.Calls for counter.
type counterCalls struct {
	engine.Calls
	counter
}

// Calls implements engine.Engine.
func (c counter) Calls() engine.Calls { return counterCalls{nil, c} }

func (c counterCalls) List(context.Context, perdure.SessionID) ([]perdure.Call, error) {
	return nil, nil
}

// counterResources implements engine.Resources for counter.
type counterResources struct {
	engine.Resources
	counter
}

// Resources implements engine.Engine.
func (c counter) Resources() engine.Resources { return counterResources{nil, c} }

func (c counterResources) List(context.Context, perdure.SessionID) ([]engine.SessionResource, error) {
	return nil, nil
}

// counterWebhooks implements engine.Webhooks for counter.
type counterWebhooks struct {
	engine.Webhooks
	counter
}

// Webhooks implements engine.Engine.
func (c counter) Webhooks() engine.Webhooks { return counterWebhooks{nil, c} }

func (c counterWebhooks) List(context.Context) ([]webhook.Webhook, error) {
	return []webhook.Webhook{{ID: "whk_1"}}, nil
}

func (c counterWebhooks) Get(context.Context, perdure.WebhookID) (webhook.Webhook, error) {
	return webhook.Webhook{ID: "whk_1"}, nil
}

func (c counterWebhooks) Deliveries(context.Context, perdure.WebhookID, int) ([]webhook.Delivery, error) {
	return nil, nil
}

// counterHarnesses implements engine.Harnesses for counter.
type counterHarnesses struct {
	engine.Harnesses
	counter
}

// Harnesses implements engine.Engine.
func (c counter) Harnesses() engine.Harnesses { return counterHarnesses{nil, c} }

func (c counterHarnesses) List(context.Context) ([]engine.HarnessEntry, error) {
	return []engine.HarnessEntry{{ID: "harness_1", Name: "house", Status: "active"}, {ID: "harness_2", Name: "yard", Status: "active"}, {ID: "harness_3", Name: "old", Status: "deleted"}}, nil
}

// counterAgents implements engine.Agents for counter.
type counterAgents struct {
	engine.Agents
	counter
}

// Agents implements engine.Engine.
func (c counter) Agents() engine.Agents { return counterAgents{nil, c} }

func (c counterAgents) List(context.Context) ([]engine.AgentEntry, error) {
	return []engine.AgentEntry{{ID: "agent_1", Name: "clerk", Source: "kept", Status: "active"}, {ID: "agent_2", Name: "guard", Source: "kept", Status: "active"}}, nil
}

// counterFiles implements engine.Files for counter.
type counterFiles struct {
	engine.Files
	counter
}

// Files implements engine.Engine.
func (c counter) Files() engine.Files { return counterFiles{nil, c} }

func (c counterFiles) Get(context.Context, perdure.SessionID, string, bool) (engine.File, error) {
	return engine.File{Path: "/dir", Directory: true}, nil
}

func (c counterFiles) Remove(context.Context, perdure.SessionID, engine.FileRemoval) error {
	return c.refusal
}

// counterValues implements engine.Values for counter.
type counterValues struct {
	engine.Values
	counter
}

// Values implements engine.Engine.
func (c counter) Values() engine.Values { return counterValues{nil, c} }

func (c counterValues) Set(context.Context, perdure.SessionID, engine.ValueWrite) (engine.Value, error) {
	return engine.Value{}, c.refusal
}

func (c counterValues) Get(context.Context, perdure.SessionID, string) (engine.Value, error) {
	return engine.Value{}, perdure.NotFound
}

// TestC14Follows checks that hints can be followed: the command exists, takes these arguments, and
// uses the right store.
func TestC14Follows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		says []string // all of these
	}{
		{"call show last/nope", []string{"perdure call list --data /a session_1 shows them"}},
		{"resource show last nope", []string{"perdure resource list --data /a session_1 shows them"}},
		{"webhook redeliver whk_1 zz", []string{"perdure webhook deliveries --data /a whk_1 shows them"}},
		{"webhook show zz", []string{"perdure webhook list --data /a shows them"}},
		{"task show zz", []string{"perdure task list --data /a shows them"}},
		{"value get last zz", []string{"perdure value list --data /a session_1  shows them"}},
		{"value set last name text --new", []string{"without --new", "perdure value get --data /a session_1 name"}},
		{"file rm last /dir --yes", []string{"/dir", "-r"}},
		{"file cat last /dir", []string{"perdure file ls --data /a session_1 /dir"}},
		{"harness show harness_", []string{"matches 3 harnesses", "harness_1  house, active", "harness_3  old, deleted"}},
		{"agent show agent_", []string{"matches 2 agents", "agent_1  clerk, kept, active"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			at := counter{&scene{sessions: sessionsOf("session_1"), views: [][]perdure.Task{{}}}, fmt.Errorf("%w: it is there. Set recursive to true", perdure.Conflict)}
			code, _, talk := command{args: "--data /a " + test.args, engine: at}.run(t.Context())
			for _, part := range test.says {
				if code == exitOK || !strings.Contains(talk, part) {
					t.Errorf("exit code %d, and no %q: %s", code, part, talk)
				}
			}
			if strings.Contains(talk, "doctor") || strings.HasPrefix(test.args, "file ") && strings.Contains(talk, "recursive") {
				t.Errorf("it says what does not help: %s", talk)
			}
			wantAdvice(t, talk)
		})
	}
}

// TestC14Lists checks that the hint of every noun names an existing command.
func TestC14Lists(t *testing.T) {
	t.Parallel()
	known := leaves(t)
	for _, noun := range []string{"session", "task", "approval", "token", "tool", "harness", "webhook", "agent", "schedule", "budget"} {
		list := strings.TrimPrefix((&app{}).kind(noun).list, program+" ")
		if known[list] == nil {
			t.Errorf("there is no command %q, which shows what there is of %s", list, noun)
		}
	}
	for name, text := range topics() {
		for line := range strings.Lines(text) {
			line, told := strings.CutPrefix(strings.TrimSpace(line), program+" ")
			words := strings.Fields(line)
			if !told || len(words) == 0 || words[0] == "help" || words[0] == "(devel)" {
				continue
			}
			if known[words[0]] == nil && known[strings.Join(words[:min(2, len(words))], " ")] == nil {
				t.Errorf("help %s offers %q, which is no command", name, line)
			}
			if strings.HasPrefix(line, "task ") && slices.Contains(words, lastSession) {
				t.Errorf("help %s offers %q, and last is a session", name, line)
			}
		}
	}
}

// TestC14Cron: a time in words is answered with the syntax to use.
func TestC14Cron(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"schedule next @weekdays", "schedule create weekdays --session last --message hello"} {
		code, _, talk := command{args: args, scene: &scene{}}.run(t.Context())
		if code != exitUsage || !strings.Contains(talk, `"0 9 * * 1-5"`) {
			t.Errorf("%s: exit code %d: %s", args, code, talk)
		}
	}
}

// TestC14Servers: an unreachable server and an address in use are answered with a useful hint.
func TestC14Servers(t *testing.T) {
	t.Parallel()
	code, _, talk := command{args: "session list --server http://127.0.0.1:1", opening: perdure.Unavailable}.run(t.Context())
	if code != exitUnreachable || strings.Contains(talk, "--data") || !strings.Contains(talk, "perdure doctor --server http://127.0.0.1:1") {
		t.Errorf("exit code %d: %s", code, talk)
	}

	taken := &net.OpError{Op: "listen", Net: "tcp", Err: errors.New("address already in use")}
	err := addressError(fmt.Errorf("%w: listen: %w", perdure.Unavailable, taken), "127.0.0.1:7373")
	var f *userError
	if !errors.As(err, &f) || exitCode(err) != exitUnreachable || !strings.Contains(f.hint, "--addr") {
		t.Errorf("got %+v", f)
	}
	if other := perdure.Storage; addressError(other, "127.0.0.1:7373") != error(other) {
		t.Error("what is not the address is told as it")
	}
}

// TestDoctorServer: doctor also checks a remote server.
func TestDoctorServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer error
		code   int
		says   string
	}{
		{nil, exitOK, "✓ server"},
		{perdure.Unavailable, exitError, "✗ server"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			at := &scene{err: test.answer}
			code, out, talk := command{args: "doctor --server http://127.0.0.1:1", scene: at, checks: []Check{{Name: "disk", Health: HealthOK}}}.run(t.Context())
			if code != test.code || !strings.Contains(out, test.says) || !strings.Contains(out, "✓ disk") {
				t.Errorf("exit code %d, %q, %q", code, out, talk)
			}
		})
	}
}

// TestDoctorHomes: doctor lists the homes of a shared database, and warns of one that is away while
// something waits for it (RC26).
func TestDoctorHomes(t *testing.T) {
	t.Parallel()
	at := &scene{homes: []engine.Home{
		{ID: "home_1", Host: "one", Present: true, Here: true},
		{ID: "home_2", Host: "two", SeenAt: time.Now().Add(-90 * time.Minute), WaitingSessions: 2, WaitingTasks: 1},
		{ID: "home_3", Host: "three", SeenAt: time.Now().Add(-90 * time.Minute)},
	}}

	code, out, talk := command{args: "doctor", scene: at, checks: []Check{{Name: "disk", Health: HealthOK}}}.run(t.Context())

	for _, want := range []string{
		"✓ home               home home_1 on one, this one: a server of it is running\n",
		"! home               home home_2 on two: its last server was seen 90 min ago; 2 sessions and 1 task wait for it\n",
		"perdure session move SESSION",
		"✓ home               home home_3 on three: its last server was seen 90 min ago\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if code != exitOK || t.Failed() {
		t.Errorf("exit code %d:\n%s%s", code, out, talk)
	}
}
