package temporal

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
)

// try is one activity that a workflow asked for.
type try struct {
	workInput
	queue string
	at    time.Duration // since the workflow began, in its own time
}

// stage runs one workflow in virtual time. Its activities are scripts: the n-th call gets n from 1.
type stage struct {
	*testsuite.TestWorkflowEnvironment
	began time.Time

	mu     sync.Mutex
	tries  []try    // guarded by mu
	stops  []string // guarded by mu; interrupts and cancels
	onStop func()   // called in each of them, if set
}

func newStage(t *testing.T) *stage {
	t.Helper()
	suite := testsuite.WorkflowTestSuite{}
	suite.SetLogger(discardLogger())
	s := &stage{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	s.SetStartWorkflowOptions(client.StartWorkflowOptions{TaskQueue: "p", ID: "w"})
	s.SetTestTimeout(time.Minute)
	workflows{5 * time.Second}.register(s)
	for _, name := range []string{interruptActivity, cancelActivity} {
		s.RegisterActivityWithOptions(func(_ context.Context, in workInput) error {
			s.mu.Lock()
			s.stops = append(s.stops, in.ID)
			s.mu.Unlock()
			if s.onStop != nil {
				s.onStop()
			}
			return nil
		}, activity.RegisterOptions{Name: name})
	}
	s.began = s.Now()
	return s
}

// note records a try and returns its number.
func (s *stage) note(ctx context.Context, in workInput) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = append(s.tries, try{in, activity.GetInfo(ctx).TaskQueue, s.Now().Sub(s.began).Round(time.Second)})
	return len(s.tries)
}

// drives has script answer each Drive.
func (s *stage) drives(script func(n int, in workInput) (driveResult, error)) {
	s.RegisterActivityWithOptions(func(ctx context.Context, in workInput) (driveResult, error) {
		return script(s.note(ctx, in), in)
	}, activity.RegisterOptions{Name: driveActivity})
}

// runs has script answer each RunTask.
func (s *stage) runs(script func(n int, in workInput) (runResult, error)) {
	s.RegisterActivityWithOptions(func(ctx context.Context, in workInput) (runResult, error) {
		return script(s.note(ctx, in), in)
	}, activity.RegisterOptions{Name: runTaskActivity})
}

// after signals the workflow once d of its time has passed.
func (s *stage) after(d time.Duration, w wake) {
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(wakeSignal, w) }, d)
}

// session runs a Session workflow that was started by a signal.
func (s *stage) session(t *testing.T, first wake) []try {
	t.Helper()
	s.after(0, first)
	s.ExecuteWorkflow(sessionType, sessionState{ID: "s"})
	if !s.IsWorkflowCompleted() {
		t.Fatal("the workflow did not complete")
	}
	return s.tries
}

// run runs a Run workflow that was started by a signal.
func (s *stage) run(t *testing.T, first wake) []try {
	t.Helper()
	s.after(0, first)
	s.ExecuteWorkflow(runType, runState{Task: "t"})
	if !s.IsWorkflowCompleted() {
		t.Fatal("the workflow did not complete")
	}
	return s.tries
}

// finished wants the workflow to have completed without an error.
func (s *stage) finished(t *testing.T) {
	t.Helper()
	if err := s.GetWorkflowError(); err != nil {
		t.Errorf("the workflow ended with %v", err)
	}
}

// rests is a Drive that rests at seq, as the holder of its grant.
func rests(seq int64) func(int, workInput) (driveResult, error) {
	return func(_ int, in workInput) (driveResult, error) {
		return driveResult{Seq: seq, workResult: workResult{Grant: in.Grant}}, nil
	}
}

// grants returns the numbers of the grants of tries.
func grants(tries []try) []int64 {
	var numbers []int64
	for _, t := range tries {
		numbers = append(numbers, t.Grant)
	}
	return numbers
}
