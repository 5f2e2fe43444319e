package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// napping works silently for as many hours as its call says, and sets the deadline that the call
// names.
type napping struct{ tool.Tool }

type nap struct {
	Hours int `json:"hours"`
	Limit int `json:"limit,omitempty"` // in hours
}

// newNapping creates the tool; a call that names no deadline has the one of its spec.
func newNapping(soft time.Duration) napping {
	return napping{tool.NewBackground(tool.Spec{Name: "napping", Description: "Sleeps.", Class: perdure.Idempotent, SoftBudget: soft},
		func(ctx context.Context, in nap, _ tool.Env) (string, error) {
			select {
			case <-time.After(time.Duration(in.Hours) * time.Hour):
				return "rested", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})}
}

// RunBackground implements tool.Background.
func (n napping) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	return n.Tool.(tool.Background).RunBackground(ctx, call, env, sink)
}

// Deadline implements tool.Timed.
func (n napping) Deadline(args json.RawMessage) time.Duration {
	var in nap
	_ = json.Unmarshal(args, &in)
	return time.Duration(in.Limit) * time.Hour
}

// TestCallNamesItsDeadline: the time that a call names is its deadline, in every lane; without one
// it has that of its tool, two hours. The idle watchdog does not end a call early that names its
// time.
func TestCallNamesItsDeadline(t *testing.T) {
	t.Parallel()
	const spawned = `spawn_background, args: {tool: napping, title: nap, args: `
	for name, c := range map[string]struct {
		call string
		soft time.Duration
		want time.Duration // until the work has ended
		ends perdure.ErrorKind
	}{
		"in the foreground":                    {`napping, args: {hours: 5, limit: 6}`, tool.Never, 5 * time.Hour, ""},
		"in the foreground, too long":          {`napping, args: {hours: 5, limit: 3}`, tool.Never, 3 * time.Hour, perdure.ErrorTimeout},
		"in the foreground, without":           {`napping, args: {hours: 5}`, tool.Never, 2 * time.Hour, perdure.ErrorTimeout},
		"having left the turn":                 {`napping, args: {hours: 5, limit: 6}`, time.Minute, 5 * time.Hour, ""},
		"having left the turn, too long":       {`napping, args: {hours: 5, limit: 3}`, time.Minute, 3 * time.Hour, perdure.ErrorTimeout},
		"in the background":                    {spawned + `{hours: 5, limit: 6}}`, 0, 5 * time.Hour, ""},
		"in the background, too long":          {spawned + `{hours: 5, limit: 1}}`, 0, time.Hour, perdure.ErrorTimeout},
		"in the background, without":           {spawned + `{hours: 5}}`, 0, 2 * time.Hour, perdure.ErrorTimeout},
		"in the background, a day":             {spawned + `{hours: 25, limit: 30}}`, 0, 25 * time.Hour, ""},
		"less than the tool, and in time":      {`napping, args: {hours: 1, limit: 2}`, tool.Never, time.Hour, ""},
		"less than the tool, and not in time ": {`napping, args: {hours: 2, limit: 1}`, tool.Never, time.Hour, perdure.ErrorTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				took, ended := napped(t, newNapping(c.soft), c.call)

				if took < c.want || took > c.want+2*time.Minute || ended != c.ends {
					t.Errorf("ended as %q after %s, want %q after %s", ended, took, c.ends, c.want)
				}
			})
		})
	}
}

// napped runs a call until all of its work has ended, and returns how long it took and how it
// ended.
func napped(t *testing.T, n napping, call string) (took time.Duration, ended perdure.ErrorKind) {
	t.Helper()
	m, err := scripted.Parse("nap", fmt.Appendf(nil, "steps:\n  - calls: [{name: %s}]\n  - {text: done, repeat: true}\n", call))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: memory.New(memory.Config{}), Model: m,
		Tools:   tool.NewRegistry(append(background.Tools(background.Config{}), n)...),
		Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = eng.Run(ctx) })
	defer group.Wait()
	defer stop()
	session, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := eng.Send(ctx, session.ID, perdure.Text("sleep")); err != nil {
		t.Fatal(err)
	}
	if err := eng.Sessions().WaitIdle(ctx, session.ID); err != nil {
		t.Fatal(err)
	}
	tasks, err := eng.Tasks().List(ctx, session.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		for !task.State.Terminal() {
			<-time.After(time.Minute) // virtual
			if task, err = eng.Tasks().Get(ctx, task.ID); err != nil {
				t.Fatal(err)
			}
		}
		if task.Error != nil {
			ended = task.Error.Kind
		}
		return task.FinishedAt.Sub(began), ended
	}
	events, err := eng.Events(ctx, session.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.ToolCompleted); ok {
			took, ended = e.At.Sub(began), f.Result.ErrorKind
		}
	}
	return took, ended
}
