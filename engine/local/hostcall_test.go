package local_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/tool"
)

// TestBeforeRun orders work from an engine that does not run yet: nothing claims it under a worker
// that is not registered (LG19), because others would take it for a dead worker's. Run then carries
// it out once.
func TestBeforeRun(t *testing.T) {
	t.Parallel()
	orders := map[string]func(s *shop) error{
		"call": func(s *shop) error {
			_, err := s.eng.HostCalls().Start(s.ctx, engine.HostCallRequest{Session: s.id, Tool: "build"})
			return err
		},
		"schedule": func(s *shop) error {
			made, err := s.eng.Schedules().Create(s.ctx, perdure.Schedule{
				Session: s.id, Action: perdure.ScheduleAction{Tool: "build"}, Cron: "@hourly", Zone: "UTC", Enabled: true,
			})
			if err == nil {
				_, err = s.eng.Schedules().Trigger(s.ctx, made.ID, "user")
			}
			return err
		},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done atomic.Int32
			build := tool.NewBackground(tool.Spec{Name: "build", Description: "Builds.", Class: perdure.AtMostOnce}, func(context.Context, struct{}, tool.Env) (answer, error) {
				done.Add(1)
				return answer{}, nil
			})
			s := openShop(t, "steps: [{text: ok, repeat: true}]", local.Config{}, build)
			s.session()
			if err := order(s); err != nil {
				t.Fatal(err)
			}
			before := s.onlyTask()
			if before.State != perdure.TaskQueued || before.Worker != "" || before.Executions != 0 || done.Load() != 0 {
				t.Errorf("before Run: %+v, %d times", before, done.Load())
			}
			s.run()
			after, err := s.eng.Tasks().Wait(s.ctx, before.ID)
			if err != nil || after.State != perdure.TaskSucceeded || after.Executions != 1 || done.Load() != 1 {
				t.Errorf("after Run: %+v, %v, %d times", after, err, done.Load())
			}
			s.stop()
			if err := <-s.done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitTaskThatAsks: waiting for a task that already waits for input returns at once.
func TestWaitTaskThatAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ask := tool.NewBackground(tool.Spec{Name: "ask", Description: "Asks.", Class: perdure.Idempotent}, func(ctx context.Context, _ struct{}, env tool.Env) (answer, error) {
			_, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which?"})
			return answer{}, err
		})
		s := openShop(t, "steps: [{text: ok, repeat: true}]", local.Config{}, ask)
		s.session()
		s.run()
		made, err := s.eng.HostCalls().Start(s.ctx, engine.HostCallRequest{Session: s.id, Tool: "ask"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it asks, and nothing else runs
		began := time.Now()
		task, err := s.eng.Tasks().Wait(s.ctx, made.Task.ID)
		if took := time.Since(began); err != nil || !task.AwaitsInput() || took != 0 {
			t.Errorf("after %s it is %s, %v", took, task.State, err)
		}
		s.stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	})
}
