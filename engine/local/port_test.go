package local_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// listener is a model that records its requests. Only one session uses it at a time.
type listener struct {
	model.Model
	asked []model.Request
}

func (l *listener) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	l.asked = append(l.asked, req)
	return l.Model.Stream(ctx, req)
}

// mirror is a tool that renames its session and reads the context of the model.
type mirror struct {
	plain
	report tool.ContextReport
	page   tool.MessagePage
}

func (m *mirror) Run(ctx context.Context, _ tool.Call, env tool.Env) tool.Result {
	if err := env.Session.SetTitle(ctx, "renamed"); err != nil {
		return tool.Internal(err)
	}
	var err error
	if m.report, err = env.Session.Context(ctx); err != nil {
		return tool.Internal(err)
	}
	if m.page, err = env.Messages.Messages(ctx, 0, 0); err != nil {
		return tool.Internal(err)
	}
	return tool.Success("seen")
}

// TestSessionPorts: a tool in a turn renames its session, and the context and the transcript that
// it reads are what the model receives next, except for the tool's own result.
func TestSessionPorts(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse("law", []byte(`
steps:
  - text: let me see
    calls: [{name: look, args: {}}]
  - text: done
`))
	if err != nil {
		t.Fatal(err)
	}
	asked, look := &listener{Model: script}, &mirror{plain: plain{name: "look"}}
	st := memory.New(memory.Config{})
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: asked, Tools: tool.NewRegistry(look), Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(ctx) }()
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Instructions: "be kind", Title: "first", MaxContextTokens: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := eng.Send(ctx, s.ID, perdure.Text("hello")); err != nil {
		t.Fatal(err)
	}
	if err := eng.Sessions().WaitIdle(ctx, s.ID); err != nil {
		t.Fatal(err)
	}

	if s, err = eng.Sessions().Get(ctx, s.ID); err != nil || s.Title != "renamed" {
		t.Errorf("got title %q, %v", s.Title, err)
	}
	if len(asked.asked) != 2 {
		t.Fatalf("asked %d times", len(asked.asked))
	}
	next := asked.asked[1]
	next.Messages = next.Messages[:len(next.Messages)-1] // without the tool's own result
	fold := perdure.NewSession(s.ID)
	fold.Agent.MaxContextTokens = 1 << 20
	if diff := cmp.Diff(sessionport.Report(next, fold), look.report); diff != "" || look.report.Tokens < 10 {
		t.Errorf("the report (-request +report):\n%s", diff)
	}
	var told []perdure.Message
	for _, m := range look.page.Messages {
		told = append(told, m.Message)
	}
	if diff := cmp.Diff(next.Messages, told); diff != "" {
		t.Errorf("the transcript (-request +port):\n%s", diff)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
