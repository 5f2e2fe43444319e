package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/strictjson"
)

type taskResolve struct {
	ID           string `arg:"" help:"Task, or SESSION/CALL; unique prefixes are enough."`
	Happened     bool   `help:"The effect happened." xor:"word" required:""`
	DidNotHappen bool   `help:"The effect did not happen." xor:"word" required:""`
	RunAgain     bool   `help:"Run it again with the same idempotency key (tasks only)." xor:"word" required:""`
	Result       string `help:"With --happened: the result of the call, as JSON." placeholder:"JSON"`
	Note         string `help:"How you know; it is recorded in the journal." placeholder:"TEXT"`
	actFlags
}

// resolved is a recorded outcome, for -o json.
type resolved struct {
	ID      string                `json:"id"`
	Session perdure.SessionID     `json:"session_id"`
	Tool    string                `json:"tool"`
	Outcome perdure.ResolveAnswer `json:"outcome"`
}

// Run records the outcome that an operator states (LG11).
func (c *taskResolve) Run(ctx context.Context, a *app) error {
	word, err := c.resolution()
	if err == nil {
		err = c.checkFields(resolved{})
	}
	if err != nil {
		return err
	}
	if c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			found, err := c.find(ctx, a, eng)
			if err != nil {
				return err
			}
			a.message("would resolve %s of %s: %s", a.oneLine(found.name, idChars), a.oneLine(found.tool, cellChars), word.Answer)
			return nil
		})
	}
	return a.with(ctx, OpenOptions{Access: Writing}, func(eng Engine) error {
		found, err := c.find(ctx, a, eng)
		if err != nil {
			return err
		}
		if found.task != "" {
			err = eng.Tasks().Resolve(ctx, found.task, word)
		} else {
			err = eng.Calls().Resolve(ctx, found.key, word)
		}
		if err != nil {
			return err
		}
		a.message("resolved %s: %s", a.oneLine(found.name, idChars), word.Answer)
		a.message("to let the agent continue with it: %s run %s--session %s", program, a.storeFlags(), found.key.Session)
		return c.showForPrograms(ctx, a, found.name, resolved{found.name, found.key.Session, found.tool, word.Answer})
	})
}

func (c *taskResolve) resolution() (engine.Resolution, error) {
	word := engine.Resolution{Answer: perdure.ResolveHappened, By: operator, Note: c.Note}
	switch {
	case c.DidNotHappen:
		word.Answer = perdure.ResolveDidNotHappen
	case c.RunAgain:
		word.Answer = perdure.ResolveRunAgain
	}
	if c.Result == "" {
		return word, nil
	}
	if !c.Happened {
		return word, usageError("--result requires --happened", "only an effect that happened has a result")
	}
	if _, err := strictjson.Canonical([]byte(c.Result)); err != nil {
		return word, usageError("--result: "+err.Error(), `quote a string as JSON: --result '"done"'`)
	}
	word.Result = json.RawMessage(c.Result)
	return word, nil
}

// resolvable is a task or a call whose outcome is unknown.
type resolvable struct {
	name string
	tool string
	task perdure.TaskID  // empty: a call without a task
	key  perdure.CallKey // with at least the session
}

// find finds the task or call, and refuses one whose outcome is known.
func (c *taskResolve) find(ctx context.Context, a *app, eng Engine) (resolvable, error) {
	if !strings.Contains(c.ID, "/") {
		t, err := a.task(ctx, eng, c.ID)
		if err != nil {
			return resolvable{}, err
		}
		return taskText{a}.resolvableTask(t)
	}
	call, err := a.call(ctx, eng, c.ID)
	if err != nil {
		return resolvable{}, err
	}
	if call.Task != "" {
		t, err := eng.Tasks().Get(ctx, call.Task)
		if err != nil {
			return resolvable{}, fmt.Errorf("read the task of %s: %w", call.Key, err)
		}
		return taskText{a}.resolvableTask(t)
	}
	found := resolvable{name: call.Key.String(), tool: call.Tool, key: call.Key}
	if call.State != perdure.CallUnknown {
		return found, taskText{a}.outcomeKnownError(found.name, string(call.State))
	}
	if c.RunAgain {
		return found, &userError{
			err:     perdure.Invalid,
			message: "the turn of " + found.name + " has continued without it, so it cannot run again",
			hint:    "use --did-not-happen, and ask the agent to call the tool again",
		}
	}
	return found, nil
}

func (a taskText) resolvableTask(t perdure.Task) (resolvable, error) {
	found := resolvable{name: string(t.ID), tool: t.Tool, task: t.ID, key: perdure.CallKey{Session: t.Session}}
	if t.State != perdure.TaskUnknown {
		return found, a.outcomeKnownError(found.name, string(t.State))
	}
	return found, nil
}

func (a taskText) outcomeKnownError(name, state string) error {
	return &userError{
		err: perdure.Conflict, message: fmt.Sprintf("the outcome of %s is already known: it is %s", name, state),
		hint: program + " task list " + a.storeFlags() + "--state unknown  lists unknown outcomes",
	}
}

// quote quotes an argument for a shell.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
