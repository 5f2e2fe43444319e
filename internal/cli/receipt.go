package cli

import (
	"context"

	"github.com/perdure/perdure/internal/cli/form"
)

// gone is what a command prints, for programs, of something that it has removed. People were told already.
type gone struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

// quietly prints a thing in the forms for programs, and nothing for people, who were told by the talk.
func (o output) quietly(ctx context.Context, a *app, name string, thing any) error {
	return o.show(ctx, a, shown{name, thing, func() {}})
}

// suits refuses fields that a thing does not have, before anything is done.
func (o output) suits(thing any) error { return misformed(o.choice().CheckFields(thing)) }

// reveals refuses forms without a secret that is shown once, before it is made. A file of a project may have chosen the form.
func (o output) reveals() error {
	if o.Output == form.None || o.Output == form.Name {
		return misuse("-o "+o.Output+" leaves out the secret, which is shown once", "-o table shows it, and -o json has it, too")
	}
	return nil
}
