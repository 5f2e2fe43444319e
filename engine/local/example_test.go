package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// A durable tool and a session, on the embedded store.
func ExampleEngine() {
	if err := shipRelease(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: The image is perdure/perdure:1.
}

func shipRelease(ctx context.Context) error {
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
	dir, err := os.MkdirTemp("", "perdure-example")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
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
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Instructions: "You ship releases."})
	if err != nil {
		return err
	}
	_, err = eng.Send(ctx, s.ID, perdure.Text("Build perdure/perdure"))
	if err != nil {
		return err
	}
	return untilRest(ctx, eng, s.ID)
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
