// Package background is the set of tools by which a model works with background runs: spawn_background starts
// one, check_background_tool waits for it, and the tools with task in their names are for tasks of every kind.
//
// It may import the root and tool, and keeps nothing: all it knows comes from tool.Env, and what it starts or
// ends is the session's task registry's to do. The one thing to know: reading an end to the model marks the
// task read (DL5), by Result.Read, so that the same end is not injected once more.
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

// What a zero field of a Config means.
const (
	DefaultWait = 60 * time.Second
	MaxWait     = 540 * time.Second
)

// capability is what brings these tools into a session (TL33).
const capability = "background_execution"

// Config says how long check_background_tool and wait_task wait. Zero or less is the default.
type Config struct {
	DefaultWait time.Duration // without wait_seconds; zero: DefaultWait; never above MaxWait
	MaxWait     time.Duration // what a longer wait is clamped to; zero: MaxWait
}

// Tools returns the set, in the order in which the model is shown it.
func Tools(c Config) []tool.Tool {
	c = c.withDefaults()
	return append([]tool.Tool{newSpawn()}, Watching(c)...)
}

// Watching returns the tools of the set that look after what goes on, and start nothing. Whoever has calls that may leave
// their turn needs these: the placeholder of such a call names them.
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

// deadline is that of a tool that waits: no wait which the configuration allows is ended by it.
func (c Config) deadline() time.Duration {
	return max(tool.DefaultDeadline, c.MaxWait+time.Minute)
}

// clamp makes a wait of the model's number of seconds; nil is the default.
func (c Config) clamp(seconds *int) time.Duration {
	if seconds == nil {
		return c.DefaultWait
	}
	most := int(c.MaxWait / time.Second)
	return time.Duration(max(0, min(*seconds, most))) * time.Second
}

// fill puts the configured waits, in seconds, into a text for the model.
func (c Config) fill(text string) string {
	return strings.NewReplacer(
		"{default_wait}", strconv.FormatFloat(c.DefaultWait.Seconds(), 'f', -1, 64),
		"{max_wait}", strconv.FormatFloat(c.MaxWait.Seconds(), 'f', -1, 64),
	).Replace(strings.TrimSpace(text))
}

// schemaOf derives the schema of a tool that is no typed one itself, from the type of its arguments.
func schemaOf[In any]() json.RawMessage {
	return tool.New(tool.Spec{}, func(context.Context, In, tool.Env) (tool.Result, error) {
		return tool.Result{}, errors.ErrUnsupported
	}).Spec().Parameters
}

// noTasks is the answer of a tool that finds no task registry (EN2).
func noTasks(name string) tool.Result {
	return tool.Missing("Session task registry", name+" requires task tracking.")
}

// failed is the result of a port's error. When the call itself was ended, it says so.
func failed(ctx context.Context, err error) tool.Result {
	if ctx.Err() == nil {
		return tool.Internal(err)
	}
	r := tool.Error("The call was canceled before it reported a result.")
	r.ErrorAs = perdure.ErrorCanceled
	switch cause := perdure.CauseOf(ctx); {
	case cause == perdure.CauseInterrupt:
		r.Text, r.ErrorAs = perdure.TextInterrupted, perdure.ErrorInterrupted
	case cause == perdure.CauseDeadline, errors.Is(err, context.DeadlineExceeded):
		r.Text, r.ErrorAs = "The call reached its deadline before it reported a result.", perdure.ErrorTimeout
	}
	return r
}

// noTask is the answer to an error of the registry. A foreign id is an unknown one (ER2).
func noTask(ctx context.Context, id string, err error) tool.Result {
	if errors.Is(err, perdure.NotFound) {
		return tool.Failf("task not found: %s", id)
	}
	return failed(ctx, fmt.Errorf("task %s: %w", id, err))
}

// wordsOf returns the words of the error of a kind itself, without what the layers above wrapped around them.
func wordsOf(err error, kind perdure.Kind) string {
	for {
		inner := errors.Unwrap(err)
		if inner == error(kind) || !errors.Is(inner, kind) {
			return err.Error()
		}
		err = inner
	}
}

// shown is a task as a model may see it: without the text of an internal error (BG19).
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

// internal reports whether an error's text is for the log only.
func internal(e *perdure.TaskError) bool {
	return e != nil && (e.Kind == perdure.ErrorInternal || e.Kind == perdure.ErrorPanic)
}

// sizeOf is how many bytes of JSON a value has as a result. What has more than tool.ResultLimit is cut (TL16), and
// with its end goes what says how to go on.
func sizeOf(v any) int {
	record, err := tool.Success(v).Record("")
	if err != nil {
		return 0 // it cannot be written, and becomes an internal error
	}
	return len(record.Result)
}

// read marks a task read when the model learns its end from r (DL5).
func read(r tool.Result, t perdure.Task) tool.Result {
	if t.State.Terminal() {
		r.Read = append(r.Read, t.ID)
	}
	return r
}
