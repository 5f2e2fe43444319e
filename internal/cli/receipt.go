package cli

import "context"

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
