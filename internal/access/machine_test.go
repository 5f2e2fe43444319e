package access_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
)

// theMachine is one whose directories are named by "workspace", and whose files by models that
// begin with "file:".
var theMachine = access.MachineAccess{DirectoryKey: "workspace", Model: func(name string) bool { return strings.HasPrefix(name, "file:") }}

// TestS04MachineIsTheOperators: every input that names a directory of the machine, or a file by its
// model name, is refused to all but the operator and the bearer of the data directory's own token,
// whatever their scopes (S1, S4, S18). Other input is accepted.
func TestS04MachineIsTheOperators(t *testing.T) {
	t.Parallel()
	eng, st := newEngine(t)
	g := access.NewGuard(eng, access.StoreOwners(st), theMachine, nil)
	everything := access.Principal{Org: "default", Scopes: access.All()}
	who := func(id, org string, agent bool) context.Context {
		p := everything
		p.ID, p.Org, p.Agent = id, org, agent
		return access.WithPrincipal(t.Context(), p)
	}
	must1(g.Agents().Put(t.Context(), engine.AgentWrite{Name: "plain"}))
	folder, file := map[string]string{"workspace": "/"}, "file:/etc/passwd"
	asked := perdure.Text("hi")
	asked.Model = file

	for name, say := range map[string]func(ctx context.Context) error{
		"a session in a folder": func(ctx context.Context) error {
			_, err := g.Sessions().Create(ctx, perdure.Agent{Metadata: folder})
			return err
		},
		"a session with a file": func(ctx context.Context) error {
			_, err := g.Sessions().Create(ctx, perdure.Agent{Model: file})
			return err
		},
		"a session of an id in a folder": func(ctx context.Context) error {
			_, err := g.Sessions().CreateAs(ctx, perdure.FormatID[perdure.SessionID](uuid.Must(uuid.NewV7())), perdure.Agent{Metadata: folder})
			return err
		},
		"a session of an id with a file": func(ctx context.Context) error {
			_, err := g.Sessions().CreateAs(ctx, perdure.FormatID[perdure.SessionID](uuid.Must(uuid.NewV7())), perdure.Agent{Model: file})
			return err
		},
		"a session of an agent in a folder": func(ctx context.Context) error {
			_, err := g.Sessions().CreateFromAgent(ctx, engine.AgentSessionRequest{Agent: "plain", Metadata: folder})
			return err
		},
		"a session of an agent with a file": func(ctx context.Context) error {
			_, err := g.Sessions().CreateFromAgent(ctx, engine.AgentSessionRequest{Agent: "plain", Model: file})
			return err
		},
		"a message to a file": func(ctx context.Context) error {
			s, err := g.Sessions().Create(ctx, perdure.Agent{})
			if err == nil {
				_, err = g.Send(ctx, s.ID, asked)
			}
			return err
		},
		"an agent in a folder":  func(ctx context.Context) error { return put(ctx, g, agent.Overlay{Metadata: folder}) },
		"an agent with a file":  func(ctx context.Context) error { return put(ctx, g, agent.Overlay{Model: file}) },
		"a harness in a folder": func(ctx context.Context) error { return lay(ctx, g, agent.Overlay{Metadata: folder}) },
		"a harness with a file": func(ctx context.Context) error { return lay(ctx, g, agent.Overlay{Model: file}) },
		"an import of a folder": func(ctx context.Context) error {
			return take(ctx, g, archive(t, perdure.Agent{Metadata: folder}, perdure.Text("hi")))
		},
		"an import of a file": func(ctx context.Context) error {
			return take(ctx, g, archive(t, perdure.Agent{Model: file}, perdure.Text("hi")))
		},
		"an import of a message": func(ctx context.Context) error { return take(ctx, g, archive(t, perdure.Agent{}, asked)) },
	} {
		t.Run(name, func(t *testing.T) {
			for whose, ctx := range map[string]context.Context{"the house's": who("token_1", "default", false), "an agent's": who("token_2", "default", true)} {
				if err := say(ctx); !errors.Is(err, perdure.Denied) {
					t.Errorf("a token that is %s: got %v", whose, err)
				}
			}
			// the directory is not there for it
			if err := say(who("token_3", "other", false)); !errors.Is(err, perdure.Denied) && !errors.Is(err, perdure.NotFound) {
				t.Errorf("a token of another org: got %v", err)
			}
			for whose, ctx := range map[string]context.Context{"the bearer of the directory's": who(access.Root, "default", false), "the operator": t.Context()} {
				if err := say(ctx); err != nil {
					t.Errorf("%s: got %v", whose, err)
				}
			}
		})
	}
}

// archive is the file of a session on another machine.
func archive(t *testing.T, a perdure.Agent, m perdure.Message) *bytes.Buffer {
	t.Helper()
	far, _ := newEngine(t)
	s := must1(far.Sessions().Create(t.Context(), a))
	_, err := far.Send(t.Context(), s.ID, m)
	if err := errors.Join(err, far.Sessions().WaitIdle(t.Context(), s.ID)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := far.Sessions().Export(t.Context(), s.ID, &b); err != nil {
		t.Fatal(err)
	}
	return &b
}

// put stores an agent with a name of its own, and lay a harness.
func put(ctx context.Context, g *access.Guard, o agent.Overlay) error {
	_, err := g.Agents().Put(ctx, engine.AgentWrite{Name: uuid.NewString(), Overlay: o})
	return err
}

func lay(ctx context.Context, g *access.Guard, o agent.Overlay) error {
	_, err := g.Harnesses().Put(ctx, engine.HarnessWrite{Name: uuid.NewString(), Overlay: o})
	return err
}

func take(ctx context.Context, g *access.Guard, file *bytes.Buffer) error {
	_, err := g.Sessions().Import(ctx, file, engine.Import{})
	return err
}
