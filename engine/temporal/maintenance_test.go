package temporal

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// maintains runs a Maintenance workflow. Each of its activities takes an hour.
func (s *stage) maintains(t *testing.T, script func(n int) error) int {
	t.Helper()
	n := 0
	s.RegisterActivityWithOptions(func(context.Context) error {
		n++
		return script(n)
	}, activity.RegisterOptions{Name: maintainActivity})
	s.ExecuteWorkflow(maintenanceType, maintenanceState{})
	if !s.IsWorkflowCompleted() {
		t.Fatal("the workflow did not complete")
	}
	return n
}

// TestMaintenance tests the laws of the Maintenance workflow.
func TestMaintenance(t *testing.T) {
	t.Parallel()

	t.Run("starts_again_when_its_process_died", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		n := s.maintains(t, func(n int) error {
			if n == 4 {
				s.SetCurrentHistoryLength(eventsLimit)
			}
			return dead()
		})
		if n != 4 || s.Now().Sub(s.began) > time.Second {
			t.Errorf("%d activities within %s, want 4 at once", n, s.Now().Sub(s.began))
		}
		var next *workflow.ContinueAsNewError
		if err := s.GetWorkflowError(); !errors.As(err, &next) {
			t.Errorf("the workflow ended with %v, want a continuation", err)
		}
	})

	t.Run("backs_off_when_it_fails", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.maintains(t, func(n int) error {
			if n == 4 {
				s.SetCurrentHistoryLength(eventsLimit)
			}
			return temporal.NewApplicationError("panic", "panic")
		})
		if passed := s.Now().Sub(s.began).Round(time.Second); passed != (1+2+4+8)*time.Second {
			t.Errorf("it took %s, want 15 s", passed)
		}
	})

	t.Run("ends_when_an_operator_cancels", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.maintains(t, func(int) error {
			s.CancelWorkflow()
			return nil
		})
		if !temporal.IsCanceledError(s.GetWorkflowError()) {
			t.Errorf("the workflow ended with %v, want canceled", s.GetWorkflowError())
		}
	})
}
