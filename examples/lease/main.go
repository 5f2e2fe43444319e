// Lease is a program whose tool starts something outside the session, here a folder that stands for
// a machine. The tool leases it, so that it is removed even if nobody remembers it: when the lease
// has expired, the cleaner of the program removes it, although the session is gone by then.
//
//	go run ./examples/lease
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// provider names the service whose resources the cleaner removes.
const provider = "machines"

// machines is the service: each machine is a folder.
type machines struct{ dir string }

// path returns the folder of a machine. The name comes from a lease, so it must not lead elsewhere.
func (m machines) path(name string) (string, error) {
	if !filepath.IsLocal(name) || name == "." || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("%q is not the name of a machine", name)
	}
	return filepath.Join(m.dir, name), nil
}

type startIn struct {
	Purpose string `json:"purpose" jsonschema:"What the machine is for."`
}

type startOut struct {
	Machine string `json:"machine"`
}

// start returns the tool that starts a machine. Its name is derived from the key of the call, so
// starting twice under one key starts one machine.
func (m machines) start() tool.Tool {
	spec := tool.Spec{Name: "start_machine", Description: "Starts a machine.", Class: perdure.Idempotent, NeedsEnv: true}
	return tool.New(spec, func(ctx context.Context, in startIn, env tool.Env) (startOut, error) {
		if env.Leases == nil {
			return startOut{}, tool.Errorf("%s", tool.Missing("Leased resource store", "start_machine requires it.").Text)
		}
		name := strings.NewReplacer("/", "-", `\`, "-").Replace(env.Call.Key)
		path, err := m.path(name)
		if err != nil {
			return startOut{}, err
		}
		// The lease comes first: a crash may leave a lease without a machine, never the reverse. A
		// tool that goes on using the machine leases it again before the time is over.
		_, err = env.Leases.Lease(ctx, tool.LeaseRequest{
			Provider: provider, Type: "machine", ExternalID: name, Name: in.Purpose, Duration: time.Second,
		})
		if err != nil {
			return startOut{}, err
		}
		return startOut{Machine: name}, os.MkdirAll(path, 0o700)
	})
}

// Clean implements tool.LeaseCleaner: it removes a machine. One that is gone is no error.
func (m machines) Clean(_ context.Context, l tool.Lease, _ func(context.Context) (string, error)) error {
	path, err := m.path(l.ExternalID)
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}

var _ tool.LeaseCleaner = machines{}

const script = `
steps:
  - calls: [{name: start_machine, args: {purpose: tests}}]
  - text: "The machine is started."
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := "data"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(ctx, dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts a machine in a session, deletes the session, and waits until the machine is gone.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	service := machines{filepath.Join(dir, "machines")}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	model, err := scripted.Parse("lease", []byte(script))
	if err != nil {
		return err
	}
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: model, Tools: tool.NewRegistry(service.start()),
		Cleanup: local.Cleanup{Cleaners: map[string]tool.LeaseCleaner{provider: service}, Interval: 100 * time.Millisecond},
	})
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
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		return err
	}
	if _, err := eng.Send(ctx, s.ID, perdure.Text("Start a machine for the tests.")); err != nil {
		return err
	}
	if err := eng.Sessions().WaitIdle(ctx, s.ID); err != nil {
		return err
	}
	leased, err := eng.Resources().List(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, r := range leased {
		fmt.Fprintf(out, "%s: %s, %s\n", r.Name, r.Kind, r.Lease)
	}
	if err := eng.Sessions().Delete(ctx, s.ID); err != nil {
		return err
	}
	fmt.Fprintln(out, "the session is deleted")
	if err := service.gone(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "the machine is gone")
	return nil
}

// gone waits until there is no machine.
func (m machines) gone(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := os.ReadDir(m.dir)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
