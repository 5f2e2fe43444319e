package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
)

// TaskFailure says that a task has no result, because it failed, was canceled or has an unknown
// outcome.
type TaskFailure struct{ Task perdure.Task }

// Error says how the task ended.
func (f *TaskFailure) Error() string {
	text := fmt.Sprintf("task %s has no result: it is %s", f.Task.ID, f.Task.State)
	if e := f.Task.Error; e != nil {
		text += fmt.Sprintf(" (%s): %s", e.Kind, e.Message)
	}
	return text
}

// Unwrap returns UnknownOutcome for a task whose outcome is unknown.
func (f *TaskFailure) Unwrap() error {
	if f.Task.State == perdure.TaskUnknown {
		return perdure.UnknownOutcome
	}
	return nil
}

// TaskResult waits until a task has ended, and returns its result as a Go value, normally of the
// type that the tool returns. Fields that T does not have are an error.
//
// A *TaskFailure: the task ended without a result. Conflict: it waits for the answer to a question.
// NotFound: no such task. Invalid: the result does not fit T, or is too large to be stored as a
// whole.
func TaskResult[T any](ctx context.Context, eng Engine, id perdure.TaskID) (result T, err error) {
	task, err := eng.Tasks().Wait(ctx, id)
	switch {
	case err != nil:
		return result, err
	case task.AwaitsInput():
		return result, fmt.Errorf("%w: task %s waits for an answer, so it has no result yet: answer it first",
			perdure.Conflict, id)
	case task.State != perdure.TaskSucceeded:
		return result, &TaskFailure{task}
	}
	text, err := storedResult(ctx, eng, task)
	if err != nil {
		return result, fmt.Errorf("result of task %s: %w", id, err)
	}
	path, cut := cutResult(text)
	if cut {
		file, err := eng.Files().Get(ctx, task.Session, cmp.Or(path, task.ResultPath), true)
		if err != nil {
			return result, fmt.Errorf("result of task %s: it was cut, and the whole result cannot be read: %w", id, err)
		}
		text = file.Content
	}
	if _, cut := cutResult(text); cut {
		return result, fmt.Errorf("%w result of task %s: it was too long to be stored as a whole", perdure.Invalid, id)
	}
	if err := perdure.DecodeJSON(text, &result); err != nil {
		return result, fmt.Errorf("result of task %s: %w", id, err)
	}
	return result, nil
}

// storedResult returns the result of a task in the effect ledger.
func storedResult(ctx context.Context, eng Engine, task perdure.Task) (json.RawMessage, error) {
	calls, err := eng.Calls().List(ctx, task.Session)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		if c.Key == task.LedgerKey() && c.Result != nil {
			return c.Result.Result, nil
		}
	}
	return nil, fmt.Errorf("%w: the ledger has none", perdure.NotFound)
}

// cutResult reports whether a result is only the head of a longer one, and where the whole is; path
// may be empty.
func cutResult(text []byte) (path string, cut bool) {
	var head struct {
		Truncated bool   `json:"truncated"`
		Bytes     int64  `json:"bytes"`
		Path      string `json:"path"`
	}
	err := perdure.DecodeKnownJSON(text, &head)
	return head.Path, err == nil && head.Truncated && head.Bytes > 0
}
