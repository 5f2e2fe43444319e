// Build is a program with a durable tool. Kill it while the tool is running and start it again: the
// tool runs again with the same key, and the conversation ends the same way.
//
//	go run ./examples/build
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// in has the arguments of the tool. The tool's schema is derived from it.
type in struct {
	Repo string `json:"repo" jsonschema:"the repository to build"`
}

// out is the result of the tool.
type out struct {
	Image string `json:"image"`
}

// build returns the tool. Building twice with one key has the effect of building once, so its
// effect class is idempotent.
func build() tool.Tool {
	spec := tool.Spec{Name: "build", Description: "Build a repository.", Class: perdure.Idempotent}
	return tool.New(spec, func(ctx context.Context, in in, env tool.Env) (out, error) {
		for step := range 5 {
			env.Sink.Progress(float64(step+1), 5, "compiling") // the same sink in every lane
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return out{}, context.Cause(ctx)
			}
		}
		fmt.Fprintln(os.Stderr, "built under", env.Call.Key) // the same key on every attempt
		return out{Image: in.Repo + ":1"}, nil
	})
}

const script = `
steps:
  - calls: [{name: build, args: {repo: perdure/perdure}}]
  - text: "The image is {{(result \"build\").image}}."
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := "data"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run requests a build, or continues the build of an earlier process: the keys make it the same
// session and the same message.
func run(ctx context.Context, dir string) (err error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	model, err := scripted.Parse("build", []byte(script))
	if err != nil {
		return err
	}
	eng, err := local.Open(ctx, local.Config{Store: st, Model: model, Tools: tool.NewRegistry(build())})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // Run's one result
	go func() { ended <- eng.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	s, err := eng.Ensure(ctx, "releases", perdure.Agent{Instructions: "You ship releases."})
	if err != nil {
		return err
	}
	answer, err := eng.Ask(ctx, s.ID, perdure.Text("Build perdure/perdure").WithKey("build 1"))
	if err != nil {
		return err
	}
	fmt.Println(answer.Text)
	return nil
}
