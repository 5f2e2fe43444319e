// Package background is the set of tools with which a model works with background runs:
// spawn_background starts one, check_background_tool waits for it, and the tools with task in their
// names work with tasks of every kind.
//
// It may import the root and tool, and has no state: everything that it knows comes from tool.Env,
// and the session's task registry starts and ends runs. The one thing to know: when a result shows
// the model that a task has ended, Result.Read marks the task as read (DL5), so that the end is not
// delivered a second time.
package background

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The meaning of zero fields of a Config.
const (
	DefaultWait = 60 * time.Second
	MaxWait     = 540 * time.Second
)

// capability is the id of the capability of these tools (TL33).
const capability = "background_execution"

// Config sets how long check_background_tool and wait_task wait. A field of zero or less means the
// default.
type Config struct {
	DefaultWait time.Duration // without wait_seconds; zero: DefaultWait; at most MaxWait
	MaxWait     time.Duration // longer waits are clamped to it; zero: MaxWait
}

// Tools returns the tools, in the order in which they are listed to the model.
func Tools(c Config) []tool.Tool {
	c = c.withDefaults()
	return append([]tool.Tool{newSpawn()}, Watching(c)...)
}

// Watching returns the tools that follow background work and start none. A session with calls that
// may detach needs them: the placeholder of such a call refers to them.
func Watching(c Config) []tool.Tool {
	c = c.withDefaults()
	return []tool.Tool{newCheck(c), newList(), newGet(), newWait(c), newMessage(), newCancel()}
}

func (c Config) withDefaults() Config {
	if c.MaxWait <= 0 {
		c.MaxWait = MaxWait
	}
	if c.DefaultWait <= 0 {
		c.DefaultWait = DefaultWait
	}
	c.DefaultWait = min(c.DefaultWait, c.MaxWait)
	return c
}

// deadline returns the deadline of a waiting tool. It is longer than every wait that the
// configuration allows.
func (c Config) deadline() time.Duration {
	return max(tool.DefaultDeadline, c.MaxWait+time.Minute)
}

// clamp converts the model's number of seconds to a wait; nil means the default.
func (c Config) clamp(seconds *int) time.Duration {
	if seconds == nil {
		return c.DefaultWait
	}
	limit := int(c.MaxWait / time.Second)
	return time.Duration(max(0, min(*seconds, limit))) * time.Second
}

// fill inserts the configured waits, in seconds, into a text for the model.
func (c Config) fill(text string) string {
	return strings.NewReplacer(
		"{default_wait}", strconv.FormatFloat(c.DefaultWait.Seconds(), 'f', -1, 64),
		"{max_wait}", strconv.FormatFloat(c.MaxWait.Seconds(), 'f', -1, 64),
	).Replace(strings.TrimSpace(text))
}

// schemaOf derives the schema of a tool that is not a typed tool from the type of its arguments.
func schemaOf[In any]() json.RawMessage {
	return tool.New(tool.Spec{}, func(context.Context, In, tool.Env) (tool.Result, error) {
		return tool.Result{}, errors.ErrUnsupported
	}).Spec().Parameters
}

// noTasks is the result of a tool without a task registry (EN2).
func noTasks(name string) tool.Result {
	return tool.Missing("Session task registry", name+" requires task tracking.")
}

// failed is the result of an error of a port. If the call itself has ended, it says so.
func failed(ctx context.Context, err error) tool.Result {
	if ctx.Err() == nil {
		return tool.Internal(err)
	}
	r := tool.Error("The call was canceled before it reported a result.")
	r.ErrorKind = perdure.ErrorCanceled
	switch cause := perdure.CauseOf(ctx); {
	case cause == perdure.CauseInterrupt:
		r.Text, r.ErrorKind = perdure.TextInterrupted, perdure.ErrorInterrupted
	case cause == perdure.CauseDeadline, errors.Is(err, context.DeadlineExceeded):
		r.Text, r.ErrorKind = "The call reached its deadline before it reported a result.", perdure.ErrorTimeout
	}
	return r
}

// noTask is the result of an error of the registry. A foreign id counts as unknown (ER2).
func noTask(ctx context.Context, id string, err error) tool.Result {
	if errors.Is(err, perdure.NotFound) {
		return tool.Failf("task not found: %s", id)
	}
	return failed(ctx, fmt.Errorf("task %s: %w", id, err))
}

// describeWords returns the text of the innermost error of a kind, without the wrapping of outer
// layers.
func describeWords(err error, kind perdure.Kind) string {
	for {
		inner := errors.Unwrap(err)
		if inner == error(kind) || !errors.Is(inner, kind) {
			return err.Error()
		}
		err = inner
	}
}

// shown returns a task for a model: without the text of an internal error (BG19).
func shown(t perdure.Task) perdure.Task {
	if !internal(t.Error) {
		return t
	}
	hidden := *t.Error
	hidden.Message = perdure.GenericToolError
	t.Error = &hidden
	if t.Summary != "" {
		t.Summary = perdure.GenericToolError
	}
	return t
}

// internal reports whether an error's text is only for the log.
func internal(e *perdure.TaskError) bool {
	return e != nil && (e.Kind == perdure.ErrorInternal || e.Kind == perdure.ErrorPanic)
}

// sizeOf returns the size in bytes of a value as a result. A result larger than tool.ResultLimit is
// cut (TL16), and would lose the fields at its end that say how to continue.
func sizeOf(v any) int {
	record, err := tool.Success(v).Record("")
	if err != nil {
		return 0 // it cannot be encoded, and becomes an internal error
	}
	return len(record.Result)
}

// read marks a task as read if r shows the model that it has ended (DL5).
func read(r tool.Result, t perdure.Task) tool.Result {
	if t.State.Terminal() {
		r.ReadTasks = append(r.ReadTasks, t.ID)
	}
	return r
}
