package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// A durable tool and a session, on the embedded store.
func ExampleEngine() {
	dir, err := os.MkdirTemp("", "perdure-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := shipRelease(context.Background(), dir); err != nil {
		fmt.Println(err)
	}
	// Output: The image is perdure/perdure:1.
}

func shipRelease(ctx context.Context, dir string) error {
	type In struct {
		Repo string `json:"repo" jsonschema:"the repository to build"`
	}
	type Out struct {
		Image string `json:"image"`
	}
	spec := tool.Spec{Name: "build", Description: "Build a repository.", Class: perdure.Idempotent}
	build := tool.New(spec, func(_ context.Context, in In, env tool.Env) (Out, error) {
		env.Sink.Progress(1, 2, "compiling")   // stored, and shown to followers
		return Out{Image: in.Repo + ":1"}, nil // env.Call.Key is the same for every execution
	})
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer st.Close()
	script := []byte(`
steps:
  - calls: [{name: build, args: {repo: perdure/perdure}}]
  - text: 'The image is {{(result "build").image}}.'
`)
	model, err := scripted.Parse("example", script)
	if err != nil {
		return err
	}
	eng, err := local.Open(ctx, local.Config{Store: st, Model: model, Tools: tool.NewRegistry(build)})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	defer func() { stop(); <-ended }()
	s, err := eng.Ensure(ctx, "releases", perdure.Agent{Instructions: "You ship releases."})
	if err != nil {
		return err
	}
	answer, err := eng.Ask(ctx, s.ID, perdure.Text("Build perdure/perdure").WithKey("build 1"))
	if err != nil {
		return err
	}
	fmt.Println(answer.Text) // started again after a crash, the same lines continue the same work
	return nil
}

// TestTheSameLinesAgain starts the example twice: it stays one session and one message.
func TestTheSameLinesAgain(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	for range 2 {
		if err := shipRelease(ctx, dir); err != nil {
			t.Fatal(err)
		}
	}

	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	model, err := scripted.Parse("example", []byte("steps: [{text: none}]"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(ctx, local.Config{Store: st, Model: model, Tools: tool.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := eng.Sessions().List(ctx, 0)
	if err != nil || len(sessions) != 1 || sessions[0].ID != perdure.SessionIDForKey(budget.DefaultOrg, "releases") {
		t.Fatalf("got %+v, %v; want the session with the key", sessions, err)
	}
	events, err := eng.Events(ctx, sessions[0].ID, 0, 0)
	received, calls := 0, 0
	for _, e := range events {
		switch e.Fact.(type) {
		case perdure.MessageReceived:
			received++
		case perdure.ToolStarted:
			calls++
		}
	}
	if err != nil || received != 1 || calls != 1 {
		t.Errorf("%d messages and %d calls, want 1 and 1; %v", received, calls, err)
	}
}

// untilRest runs the engine until the session is idle and prints the agent's last message.
func untilRest(ctx context.Context, eng *local.Engine, id perdure.SessionID) error {
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(work) }()
	err := eng.Sessions().WaitIdle(ctx, id)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		return err
	}
	for _, event := range events {
		if f, ok := event.Fact.(perdure.TurnCompleted); ok {
			fmt.Println(f.FinalPreview)
		}
	}
	return nil
}
