package local_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// silent is a model that sends only keep-alives.
type silent struct{}

func (silent) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		<-ctx.Done()
		yield(model.Delta{}, context.Cause(ctx))
	}
}

// idleTurn runs one turn in virtual time and returns how it failed, after how long, and the log.
func idleTurn(t *testing.T, m model.Model, tools ...tool.Tool) (failed perdure.TurnFailed, after time.Duration, logged string) {
	t.Helper()
	var text lockedText
	eng, err := local.Open(t.Context(), local.Config{
		Store: memory.New(memory.Config{}), Model: m, Tools: tool.NewRegistry(tools...), Log: slog.New(slog.NewTextHandler(&text, nil)),
		Timing: local.Timing{Stall: -1, SoftBudget: -1},
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
	if _, err := eng.Send(ctx, session.ID, perdure.Text("hello")); err != nil {
		t.Fatal(err)
	}
	if err := eng.Sessions().WaitIdle(ctx, session.ID); err != nil {
		t.Fatal(err)
	}
	events, err := eng.Events(ctx, session.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.TurnFailed); ok {
			failed = f
		}
	}
	return failed, time.Since(began), text.String()
}

// lockedText is a log with concurrent writers.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestWatchdogKeepAliveDoesNotCount(t *testing.T) { // RC19, TN15
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed, after, logged := idleTurn(t, silent{})

		if failed.Code != perdure.CodeIdle || !failed.Retryable || failed.Error != "The session has been idle for too long. Please try again." {
			t.Errorf("the turn ended with %+v", failed)
		}
		if after < 30*time.Minute || after > 31*time.Minute || !strings.Contains(logged, "(none tracked)") {
			t.Errorf("after %s; the log says %s", after, logged)
		}
	})
}

// waiting is a tool that works as long as ordered, with or without progress reports.
func waiting(d time.Duration, every time.Duration) tool.Tool {
	spec := tool.Spec{Name: "waiting", Description: "Waits.", Class: perdure.Pure, SoftBudget: tool.Never, Deadline: 10 * time.Hour}
	return tool.New(spec, func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		end := time.After(d)
		for {
			select {
			case <-tick.C:
				env.Report().Progress(1, 2, "on it")
			case <-end:
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	})
}

const waitingScript = `
rules:
  - when: {last_role: user}
    calls: [{name: waiting, args: {}}]
  - when: {last_role: tool_result}
    text: done
`

func TestWatchdogSparesLongTool(t *testing.T) { // RC19: progress counts, and a silent call has two hours
	t.Parallel()
	for name, c := range map[string]struct {
		takes, every time.Duration
		fails        bool
	}{
		"silent_for_an_hour":        {takes: time.Hour, every: 9 * time.Hour},
		"reports_for_five_hours":    {takes: 5 * time.Hour, every: time.Minute},
		"silent_for_over_two_hours": {takes: 5 * time.Hour, every: 9 * time.Hour, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, err := scripted.Parse("waiting", []byte(waitingScript))
				if err != nil {
					t.Fatal(err)
				}

				failed, after, logged := idleTurn(t, m, waiting(c.takes, c.every))

				if c.fails != (failed.Code == perdure.CodeIdle) {
					t.Errorf("after %s the turn failed with %+v", after, failed)
				}
				// TestWatchdogNamesCalls
				if c.fails && (!strings.Contains(logged, "waiting(id=") || after < 2*time.Hour || after > 3*time.Hour) {
					t.Errorf("after %s; the log says %s", after, logged)
				}
			})
		})
	}
}

// TestWatchdogLimitIsChecked: the limits of the watchdog are checked against the longest wait that
// the tools offer as they are configured (ER7, BG21).
func TestWatchdogLimitIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait, idle, hard time.Duration
		tools            bool
		refused          string // part of the error; empty: accepted
	}{
		"no_tool_waits":               {idle: time.Minute},
		"the_defaults":                {tools: true},
		"the_default_wait":            {tools: true, idle: 10 * time.Minute, refused: "Timing.Idle 10m0s is less than twice the longest wait of a tool, 9m0s of check_background_tool"},
		"a_long_wait":                 {tools: true, wait: 5 * time.Hour, idle: 30 * time.Minute, refused: "Timing.Idle 30m0s"},
		"a_long_wait_and_the_cap":     {tools: true, wait: 5 * time.Hour, idle: 10 * time.Hour, refused: "Timing.IdleHardCap 2h0m0s"},
		"a_long_wait_and_long_limits": {tools: true, wait: 5 * time.Hour, idle: 10 * time.Hour, hard: 10 * time.Hour},
		"a_long_wait_and_no_watchdog": {tools: true, wait: 5 * time.Hour, idle: -1},
		"a_short_wait":                {tools: true, wait: time.Minute, idle: 10 * time.Minute},
		"a_short_wait_and_less":       {tools: true, wait: time.Minute, idle: 2*time.Minute - 1, refused: "1m0s of check_background_tool"},
	} {
		tools := tool.NewRegistry()
		if c.tools {
			tools = tool.NewRegistry(background.Tools(background.Config{MaxWait: c.wait})...)
		}

		_, err := local.Open(t.Context(), local.Config{
			Store: memory.New(memory.Config{}), Model: silent{}, Tools: tools,
			Timing: local.Timing{Idle: c.idle, IdleHardCap: c.hard},
		})

		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: got %v, want %q", name, err, c.refused)
		}
	}
}

// TestLongWaitIsWaited: a wait that the configuration allows is not ended by the deadline of its
// tool.
func TestLongWaitIsWaited(t *testing.T) {
	t.Parallel()
	for _, of := range background.Tools(background.Config{MaxWait: 5 * time.Hour}) {
		if spec := of.Spec(); strings.Contains(string(spec.Parameters), "18000") && spec.HardDeadline() <= 5*time.Hour {
			t.Errorf("%s offers to wait for five hours, and is ended after %s", spec.Name, spec.HardDeadline())
		}
	}
}

// TestCancelWaitsForTheGrace: canceling a task waits as long as the configured grace period.
func TestCancelWaitsForTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stubborn := tool.NewBackground(tool.Spec{Name: "stubborn", Description: "Ends late.", Class: perdure.Idempotent},
			func(ctx context.Context, _ struct{}, _ tool.Env) (string, error) {
				<-ctx.Done()
				<-time.After(time.Minute)
				return "", context.Cause(ctx)
			})
		said := make(chan perdure.Task, 1) // one call
		ender := tool.New(tool.Spec{Name: "ender", Description: "Cancels.", Class: perdure.Idempotent},
			func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
				all, err := env.Tasks.List(ctx)
				if err != nil || len(all) != 1 {
					return "", fmt.Errorf("%d tasks, %w", len(all), err)
				}
				_, now, err := env.Tasks.Cancel(ctx, string(all[0].ID), "enough")
				said <- now
				return string(now.State), err
			})
		m, err := scripted.Parse("cancel", []byte("steps:\n  - calls: [{name: spawn_background, args: {tool: stubborn, title: t, args: {}}}]\n  - calls: [{name: ender}]\n  - {text: done, repeat: true}\n"))
		if err != nil {
			t.Fatal(err)
		}
		eng, err := local.Open(t.Context(), local.Config{
			Store: memory.New(memory.Config{}), Model: m,
			Tools:  tool.NewRegistry(append(background.Tools(background.Config{}), stubborn, ender)...),
			Timing: local.Timing{Grace: 2 * time.Minute},
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
		if _, err := eng.Send(ctx, session.ID, perdure.Text("hello")); err != nil {
			t.Fatal(err)
		}

		if now := <-said; now.State != perdure.TaskCanceled {
			t.Errorf("the task is %s when the cancel returns, want canceled", now.State)
		}
		if err := eng.Sessions().WaitIdle(ctx, session.ID); err != nil {
			t.Error(err)
		}
	})
}
