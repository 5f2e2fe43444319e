package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type taskResolve struct {
	ID           string `arg:"" help:"A task, or SESSION/CALL; a unique beginning of either is enough."`
	Happened     bool   `help:"It happened." xor:"word" required:""`
	DidNotHappen bool   `help:"It did not happen." xor:"word" required:""`
	RunAgain     bool   `help:"Run it again, under the same key. Tasks only." xor:"word" required:""`
	Result       string `help:"With --happened: what it would have answered." placeholder:"JSON"`
	Note         string `help:"How you know; it stands in the journal." placeholder:"TEXT"`
	DryRun       bool   `help:"Only say what would be done."`
	output
}

// resolved is what was said of an outcome, for programs.
type resolved struct {
	ID      string            `json:"id"`
	Session perdure.SessionID `json:"session_id"`
	Tool    string            `json:"tool"`
	Outcome perdure.Answer    `json:"outcome"`
}

// Run records an operator's word on an unknown outcome (LG11).
func (c *taskResolve) Run(ctx context.Context, a *app) error {
	word, err := c.word()
	if err == nil {
		err = c.suits(resolved{})
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
			a.say("would resolve %s of %s: %s", a.line(found.name, idChars), a.line(found.tool, cellChars), word.Answer)
			return nil
		})
	}
	return a.with(ctx, Opening{Access: Writing}, func(eng Engine) error {
		found, err := c.find(ctx, a, eng)
		if err != nil {
			return err
		}
		if found.task != "" {
			err = eng.ResolveTask(ctx, found.task, word)
		} else {
			err = eng.ResolveCall(ctx, found.key, word)
		}
		if err != nil {
			return err
		}
		a.say("resolved %s: %s", a.line(found.name, idChars), word.Answer)
		a.say("the agent hears of it: %s run %s--session %s", program, a.place(), found.key.Session)
		return c.quietly(ctx, a, found.name, resolved{found.name, found.key.Session, found.tool, word.Answer})
	})
}

func (c *taskResolve) word() (engine.Word, error) {
	word := engine.Word{Answer: perdure.Happened, By: operator, Note: c.Note}
	switch {
	case c.DidNotHappen:
		word.Answer = perdure.DidNotHappen
	case c.RunAgain:
		word.Answer = perdure.RunItAgain
	}
	if c.Result == "" {
		return word, nil
	}
	if !c.Happened {
		return word, misuse("--result goes with --happened", "only what happened has a result")
	}
	if _, err := perdure.CanonicalJSON([]byte(c.Result)); err != nil {
		return word, misuse("--result: "+err.Error(), `a text needs its quotes: --result '"done"'`)
	}
	word.Result = json.RawMessage(c.Result)
	return word, nil
}

// resolvable is a task or a call whose outcome is unknown.
type resolvable struct {
	name string
	tool string
	task perdure.TaskID  // empty: it is a call of its own
	key  perdure.CallKey // its session, at least
}

// find finds what is to be resolved, and refuses what is known.
func (c *taskResolve) find(ctx context.Context, a *app, eng Engine) (resolvable, error) {
	if !strings.Contains(c.ID, "/") {
		t, err := a.task(ctx, eng, c.ID)
		if err != nil {
			return resolvable{}, err
		}
		return a.ofTask(t)
	}
	call, err := a.call(ctx, eng, c.ID)
	if err != nil {
		return resolvable{}, err
	}
	if call.Task != "" {
		t, err := eng.Task(ctx, call.Task)
		if err != nil {
			return resolvable{}, fmt.Errorf("read the task of %s: %w", call.Key, err)
		}
		return a.ofTask(t)
	}
	found := resolvable{name: call.Key.String(), tool: call.Tool, key: call.Key}
	if call.State != perdure.CallUnknown {
		return found, a.known(found.name, string(call.State))
	}
	if c.RunAgain {
		return found, &fault{
			err: perdure.Invalid, what: "the turn that asked for " + found.name + " went on without it",
			todo: "say --did-not-happen, and ask the agent to call it again",
		}
	}
	return found, nil
}

func (a *app) ofTask(t perdure.Task) (resolvable, error) {
	found := resolvable{name: string(t.ID), tool: t.Tool, task: t.ID, key: perdure.CallKey{Session: t.Session}}
	if t.State != perdure.TaskUnknown {
		return found, a.known(found.name, string(t.State))
	}
	return found, nil
}

func (a *app) known(name, state string) error {
	return &fault{
		err: perdure.Conflict, what: fmt.Sprintf("the outcome of %s is known: it is %s", name, state),
		todo: program + " task list " + a.place() + "--state unknown  lists what waits for a word",
	}
}

// quote writes an argument as a shell reads it.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
