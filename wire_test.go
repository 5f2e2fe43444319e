package perdure_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestWireNames pins the words that stand in journals, rows and answers. They are for ever: a word
// may be added, and none may change or be used again for something else.
func TestWireNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words string // in the order of the constants
		got   []any
	}{
		{"queued running awaiting_input succeeded failed canceled unknown", []any{
			perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput,
			perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled, perdure.TaskUnknown,
		}},
		{"background_tool monitor subagent external_agent", []any{
			perdure.KindBackgroundTool, perdure.KindMonitor, perdure.KindSubagent, perdure.KindExternalAgent,
		}},
		{"spawned detached routed schedule subagent host", []any{
			perdure.OriginSpawned, perdure.OriginDetached, perdure.OriginRouted, perdure.OriginSchedule, perdure.OriginSubagent, perdure.OriginHost,
		}},
		{"to_loop manual none notify continue no injected read drained", []any{
			perdure.ToLoop, perdure.Manual, perdure.WakeNone, perdure.WakeNotify, perdure.WakeContinue,
			perdure.NotDelivered, perdure.DeliveredInjected, perdure.DeliveredRead, perdure.DeliveredDrained,
		}},
		{"started active idle waiting_for_tool_results paused", []any{
			perdure.SessionStarted, perdure.SessionActive, perdure.SessionIdle, perdure.SessionWaiting, perdure.SessionPaused,
		}},
		{"foreground background running settled unknown pure idempotent at_most_once", []any{
			perdure.Foreground, perdure.Background, perdure.CallRunning, perdure.CallSettled, perdure.CallUnknown,
			perdure.Pure, perdure.Idempotent, perdure.AtMostOnce,
		}},
		{"ready reasoning reasoned acting planned running done", []any{
			perdure.PhaseReady, perdure.PhaseReasoning, perdure.PhaseReasoned, perdure.PhaseActing,
			perdure.CallPlanned, perdure.CallExecuting, perdure.CallDone,
		}},
		{"message delivery end max_iterations refusal", []any{
			perdure.CauseMessage, perdure.CauseDelivery, perdure.StopEnd, perdure.StopMaxIterations, perdure.StopRefusal,
		}},
		{"success error timeout canceled interrupted unknown", []any{
			perdure.StatusSuccess, perdure.StatusError, perdure.StatusTimeout, perdure.StatusCanceled, perdure.StatusInterrupted, perdure.StatusUnknown,
		}},
		{"timeout denied orphaned rejected panic tool_error internal no_result interrupted canceled unknown determinism_violation", []any{
			perdure.ErrorTimeout, perdure.ErrorDenied, perdure.ErrorOrphaned, perdure.ErrorRejected, perdure.ErrorPanic, perdure.ErrorTool,
			perdure.ErrorInternal, perdure.ErrorNoResult, perdure.ErrorInterrupted, perdure.ErrorCanceled, perdure.ErrorUnknown, perdure.ErrorDeterminism,
		}},
		{"empty_answer interrupted determinism_violation processing_error", []any{
			perdure.CodeEmptyAnswer, perdure.CodeInterrupted, perdure.CodeDeterminism, perdure.CodeProcessing,
		}},
		{"stop stop_late adopt run_first reattach run_again give_up unknown reconcile", []any{
			perdure.TakeOverStop, perdure.TakeOverTimeout, perdure.TakeOverAdopt, perdure.TakeOverFirstRun, perdure.TakeOverReattach, perdure.TakeOverRunAgain,
			perdure.TakeOverGiveUp, perdure.TakeOverUnknown, perdure.TakeOverReconcile,
		}},
		{"user agent tool_result notification text image tool_call tool_result steer queue interrupt reject", []any{
			perdure.RoleUser, perdure.RoleAgent, perdure.RoleToolResult, perdure.RoleNotification,
			perdure.PartText, perdure.PartImage, perdure.PartToolCall, perdure.PartToolResult,
			perdure.ModeSteer, perdure.ModeQueue, perdure.ModeInterrupt, perdure.ModeReject,
		}},
		{"happened did_not_happen run_again", []any{perdure.ResolveHappened, perdure.ResolveDidNotHappen, perdure.ResolveRunAgain}},
	} {
		var got []string
		for _, word := range c.got {
			got = append(got, fmt.Sprint(word))
		}
		if diff := cmp.Diff(got, strings.Fields(c.words)); diff != "" {
			t.Errorf("words (-got +want):\n%s", diff)
		}
	}
}

// TestDefaults pins the numbers of chapter 18 that the rules use.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"turn.max_iterations", perdure.DefaultMaxIterations, 500},
		{"turn.parallel_calls", perdure.DefaultParallelCalls, 32},
		{"turn.max_continuations", perdure.DefaultMaxContinuations, 20},
		{"turn.max_calls_per_step", perdure.MaxCallsPerStep, 64},
		{"turn.no_progress", perdure.DefaultNoProgress, 3},
		{"turn.model_retries", perdure.DefaultModelAttempts, 5},
		{"ledger.max_executions", perdure.DefaultMaxExecutions, 3},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, c.got, c.want)
		}
	}
}
