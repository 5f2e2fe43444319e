package local_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/tool"
)

// TestHostCallBeforeRun gives a call to an engine that does not run yet: nothing claims it under a worker that is not registered
// (LG19), where others would take it for a dead one's, and Run carries it out once.
func TestHostCallBeforeRun(t *testing.T) {
	t.Parallel()
	var done atomic.Int32
	build := tool.New(tool.Spec{Name: "build", Description: "Builds.", Class: perdure.AtMostOnce}, func(context.Context, struct{}, tool.Env) (string, error) {
		done.Add(1)
		return "built", nil
	})
	s := openShop(t, "steps: [{text: ok, repeat: true}]", local.Config{}, build)
	s.session()
	made, err := s.eng.StartCall(s.ctx, engine.CallOrder{Session: s.id, Tool: "build"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.eng.Task(s.ctx, made.Task.ID)
	if err != nil || before.State != perdure.TaskQueued || before.Worker != "" || before.Executions != 0 || done.Load() != 0 {
		t.Errorf("before Run: %+v, %v, %d times", before, err, done.Load())
	}
	s.run()
	after, err := s.eng.WaitTask(s.ctx, made.Task.ID)
	if err != nil || after.State != perdure.TaskSucceeded || after.Executions != 1 || done.Load() != 1 {
		t.Errorf("after Run: %+v, %v, %d times", after, err, done.Load())
	}
	s.stop()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}
