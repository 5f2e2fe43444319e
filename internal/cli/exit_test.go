package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func TestC04ExitCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{fmt.Errorf("wrapped: %w", perdure.Invalid), 2},
		{usageError("wrong", "right"), 2},
		{fmt.Errorf("wrapped: %w", perdure.NotFound), 3},
		{perdure.Conflict, 5},
		{perdure.Limit, 5},
		{perdure.Unavailable, 6},
		{context.DeadlineExceeded, 7},
		{perdure.UnknownOutcome, 8},
		{&userError{code: exitFailed, message: "turn failed"}, 8},
		{perdure.Storage, 74},
		{errors.Join(errors.New("close"), perdure.Storage), 74},
		{context.Canceled, 130},
		{errInterrupted, 130},
		{fmt.Errorf("run: %w", errInterrupted), 130},
		{&userError{err: perdure.Conflict, message: "held"}, 5},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
}

func TestC04Topic(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for line := range strings.Lines(exitCodes()) {
		if words := strings.Fields(line); len(words) > 0 {
			listed[words[0]] = true
		}
	}
	for _, code := range []int{
		exitOK, exitError, exitUsage, exitNotFound, exitDenied, exitConflict, exitUnreachable, exitTimeout, exitFailed,
		exitApproval, exitStorage, exitInterrupted,
	} {
		if !listed[fmt.Sprint(code)] {
			t.Errorf("help exit-codes does not tell of %d", code)
		}
	}
}

// TestTrialFaults: each result of a model test has an exit code and a hint.
func TestTrialFaults(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]int{
		engine.TestOK: 0, engine.TestKeyMissing: exitDenied, engine.TestRefused: exitDenied, engine.TestNoModel: exitNotFound, engine.TestRateLimited: exitConflict, engine.TestUnreachable: exitUnreachable,
	} {
		err := testError(engine.ProviderTest{Model: "openai:small", Result: result, Variable: "OPENAI_API_KEY"})
		told := (*userError)(nil)
		if got := exitCode(err); got != want || err != nil && (!errors.As(err, &told) || told.hint == "") {
			t.Errorf("%s: exit code %d, %v, want %d", result, got, err, want)
		}
	}
}
