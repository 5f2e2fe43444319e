package cli

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/output"
	"github.com/perdure/perdure/webhook"
)

// actFlags are the flags of commands that change something.
type actFlags struct {
	DryRun bool `help:"Print what would be done, without doing it."`
	outputFlags
}

// act checks the --json fields against the thing that is printed in the end, and runs fn with an
// engine that may change something, or with a read-only one for a dry run.
func (f actFlags) act(ctx context.Context, a *app, thing any, fn func(Engine) error) error {
	if err := f.checkFields(thing); err != nil {
		return err
	}
	return a.with(ctx, writesAccess(f.DryRun), fn)
}

// onSession is act for a session.
func (f actFlags) onSession(ctx context.Context, a *app, typed string, thing any, fn func(Engine, engine.Session) error) error {
	return f.act(ctx, a, thing, found(ctx, typed, a.session, fn))
}

// onTask is act for a task.
func (f actFlags) onTask(ctx context.Context, a *app, typed string, thing any, fn func(Engine, perdure.Task) error) error {
	return f.act(ctx, a, thing, found(ctx, typed, a.task, fn))
}

// onSchedule is act for a schedule.
func (f actFlags) onSchedule(ctx context.Context, a *app, typed string, thing any, fn func(Engine, perdure.Schedule) error) error {
	return f.act(ctx, a, thing, found(ctx, typed, a.schedule, fn))
}

// onWebhook is act for a webhook.
func (f actFlags) onWebhook(ctx context.Context, a *app, typed string, thing any, fn func(Engine, webhook.Webhook) error) error {
	return f.act(ctx, a, thing, found(ctx, typed, a.webhook, fn))
}

// found returns a function that finds what the user typed and runs fn with it.
func found[T any](ctx context.Context, typed string, find func(context.Context, Engine, string) (T, error),
	fn func(Engine, T) error) func(Engine) error {
	return func(eng Engine) error {
		thing, err := find(ctx, eng, typed)
		if err != nil {
			return err
		}
		return fn(eng, thing)
	}
}

// deleteFlags are actFlags of commands that ask for confirmation.
type deleteFlags struct {
	DryRun bool `help:"Print what would be done, without doing it."`
	Yes    bool `short:"y" help:"Do not ask for confirmation."`
	outputFlags
}

// flags returns the flags without the confirmation.
func (f deleteFlags) flags() actFlags { return actFlags{f.DryRun, f.outputFlags} }

// confirmed reports whether to do what the command says: a dry run only prints it, and otherwise
// the user confirms it.
func (f deleteFlags) confirmed(ctx context.Context, a *app, what, question string) (bool, error) {
	if f.DryRun {
		a.message("would %s", what)
		return false, nil
	}
	err := a.confirm(ctx, f.Yes, question)
	return err == nil, err
}

// deletedOutput is the output about a removed thing, for -o json. On a terminal the messages have
// already reported it.
type deletedOutput struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

// showForPrograms prints a thing in the formats for programs, and nothing on a terminal, where the
// messages have already reported it.
func (o outputFlags) showForPrograms(ctx context.Context, a *app, name string, thing any) error {
	return o.show(ctx, a, outputObject{name, thing, func() {}})
}

// checkFields checks the --json fields against a thing, before anything is done.
func (o outputFlags) checkFields(thing any) error { return outputError(o.choice().CheckFields(thing)) }

// checkShowsSecret refuses output formats without the secret, before a secret is created that is
// shown only once. The configuration file of a project may have chosen the format.
func (o outputFlags) checkShowsSecret() error {
	if o.Output == output.None || o.Output == output.Name {
		return usageError("-o "+o.Output+" would not print the secret, which is shown only once", "use -o table or -o json")
	}
	return nil
}
