package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/engine/temporal"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/tool"
)

// The variables of a process that works.
const (
	workerVariable   = "PERDURE_BENCH_WORKER"
	addressVariable  = "PERDURE_BENCH_TEMPORAL"
	databaseVariable = "PERDURE_BENCH_DATABASE"
)

// The names in Temporal.
const (
	prefix     = "bench"
	capability = "work" // only processes that work offer it; the sessions need it
	aloneQueue = "alone"
)

// heartbeat is Temporal's heartbeat timeout: the least that its timers allow.
const heartbeat = time.Second

// work works until its standard input is closed.
func work(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // nothing is ever sent
		stop()
	}()
	e, err := openEngine(ctx, os.Getenv(addressVariable), os.Getenv(databaseVariable), capability)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	<-e.Started()
	// Only now: the engine has turned the SDK's cache of workflows off, which all workers share.
	alone := worker.New(e.client, aloneQueue, worker.Options{})
	alone.RegisterWorkflow(aloneWorkflow)
	alone.RegisterActivity(moment)
	if err := alone.Start(); err != nil {
		stop()
		return errors.Join(fmt.Errorf("start the worker of Temporal alone: %w", err), <-ended, e.close())
	}
	fmt.Println("ready")
	err = <-ended
	alone.Stop()
	return errors.Join(err, e.close())
}

// aloneWorkflow is Temporal alone: it runs one activity, and returns its result.
func aloneWorkflow(ctx workflow.Context) (at int64, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	err = workflow.ExecuteActivity(ctx, moment).Get(ctx, &at)
	return at, err
}

// moment returns when it ran, in nanoseconds since 1970.
func moment(context.Context) (int64, error) { return time.Now().UnixNano(), nil }

// running is an engine with its store and client.
type running struct {
	*temporal.Engine
	store  *postgres.Store
	client client.Client
}

// openEngine opens an engine that offers some capabilities.
func openEngine(ctx context.Context, address, database string, offers ...string) (*running, error) {
	st, err := postgres.Open(ctx, postgres.Config{URL: database})
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	c, _, err := temporal.Dial(temporal.DialOptions{Address: address, Log: log.NewStructuredLogger(quiet)})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	m, err := scripted.Parse("bench", []byte(script()))
	if err == nil {
		var e *temporal.Engine
		e, err = temporal.Open(ctx, local.Config{
			Store: st, Model: m, Tools: tool.NewRegistry(note(), hold(), look()), Log: quiet, Workers: local.Workers{Shared: true},
			Limits: local.Limits{SlotsPerSession: 64, MaxExecutions: -1, NoProgress: -1}, Outbound: local.Outbound{PerMinute: -1},
		}, temporal.Config{
			Client: c, Prefix: prefix, Heartbeat: heartbeat, Capabilities: offers, Log: quiet,
			CapabilityOf: func(string, map[string]string) string { return capability },
		})
		if err == nil {
			return &running{e, st, c}, nil
		}
	}
	c.Close()
	return nil, errors.Join(err, st.Close())
}

func (r *running) close() error {
	r.client.Close()
	return r.store.Close()
}

// script answers a message "N calls" with that many calls, for the numbers that are measured.
func script() string {
	var s strings.Builder
	s.WriteString("rules:\n")
	for _, calls := range []int{1, 20} {
		fmt.Fprintf(&s, "  - when: {last_role: user, last_matches: '^%d calls'}\n    calls:\n", calls)
		for i := range calls {
			fmt.Fprintf(&s, "      - {name: look, args: {at: %d}}\n", i)
		}
	}
	s.WriteString("steps:\n  - text: done\n    repeat: true\n")
	return s.String()
}

// look is a tool that returns at once, in the foreground.
func look() tool.Tool {
	return tool.New(tool.Spec{Name: "look", Description: "Returns at once.", Class: perdure.Idempotent},
		func(_ context.Context, in struct {
			At int `json:"at"`
		}, _ tool.Env) (int, error) {
			return in.At, nil
		})
}

// note is a tool that returns at once.
func note() tool.Tool {
	return tool.NewBackground(tool.Spec{Name: "note", Description: "Returns at once.", Class: perdure.Pure},
		func(context.Context, struct{}, tool.Env) (string, error) { return "noted", nil })
}

// hold is a tool that runs until it is canceled, and prints when that was.
func hold() tool.Tool {
	return tool.NewBackground(tool.Spec{Name: "hold", Description: "Runs until it is canceled.", Class: perdure.Idempotent},
		func(ctx context.Context, _ struct{}, _ tool.Env) (string, error) {
			<-ctx.Done()
			fmt.Println("canceled", time.Now().UnixNano())
			return "", context.Cause(ctx)
		})
}
