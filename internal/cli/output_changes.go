package cli

import (
	"context"

	"github.com/perdure/perdure/internal/cli/output"
)

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
