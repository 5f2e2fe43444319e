package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type secretCommand struct {
	Set    secretSet    `cmd:"" help:"Seal what nobody may read for a session's tools. It is read from stdin, a file, or a prompt that shows nothing."`
	Rotate secretRotate `cmd:"" help:"Replace a secret that is there; where it may be sent to stays."`
	List   secretList   `cmd:"" help:"List the secrets of a session. There is no way to read one."`
	Delete secretDelete `cmd:"" help:"Remove a secret."`
}

// sealed is how a secret comes in: no flag and no argument holds it (C11).
type sealed struct {
	File string `help:"Read it from this file, instead of stdin or a prompt. One line end at its end is left out." placeholder:"FILE" type:"path"`
}

// read returns what is to be sealed.
func (f sealed) read(ctx context.Context, a *app, name string) (string, error) {
	switch {
	case f.File == "" && a.Terminal.Stdin:
		return a.hidden(ctx, "what "+name+" is")
	case f.File == "":
		f.File = "-"
	}
	text, err := a.localFile(f.File)
	value := string(text)
	for _, end := range []string{"\n", "\r"} {
		if n := len(value) - 1; n >= 0 && value[n:] == end {
			value = value[:n]
		}
	}
	if err == nil && value == "" {
		err = misuse("there is nothing to seal", "pipe it in, or name a file with --file")
	}
	return value, err
}

// hidden asks for a line that is not shown while it is typed.
func (a *app) hidden(ctx context.Context, what string) (string, error) {
	if a.flags.NoInput {
		return "", &fault{code: exitApproval, what: "this needs to be typed, and --no-input was given; nothing was changed", todo: "pipe it in, or name a file with --file"}
	}
	if a.Keys == nil {
		return "", misuse("this terminal cannot hide what is typed", "pipe it in, or name a file with --file")
	}
	restore, err := a.Keys()
	if err != nil {
		return "", misuse("this terminal cannot hide what is typed: "+err.Error(), "pipe it in, or name a file with --file")
	}
	defer func() { _ = restore() }() // what was typed is what counts
	fmt.Fprintf(a.Stderr, "%s (not shown): ", a.line(what, cellChars))
	at := &attached{a: a, detach: make(chan struct{}), echo: io.Discard}
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-at.detach:
	case line, more := <-at.typed(ctx):
		a.say("")
		if more && line != "" {
			return line, nil
		}
	}
	return "", &fault{code: exitError, what: "nothing was typed; nothing was changed", todo: "type it, or pipe it in"}
}

type secretSet struct {
	Session string   `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Name    string   `arg:"" help:"How tools call it."`
	Host    []string `help:"A host that it may be sent to; without one it is only for the environment of commands. Can be given several times." placeholder:"HOST"`
	DryRun  bool     `help:"Only say what would be done."`
	sealed
	output
}

// Run seals a secret.
func (c *secretSet) Run(ctx context.Context, a *app) error {
	return sealing{c.Session, c.Name, c.DryRun, c.sealed, c.output}.do(ctx, a, func([]engine.Secret) ([]string, error) { return c.Host, nil })
}

type secretRotate struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Name    string `arg:"" help:"How tools call it."`
	DryRun  bool   `help:"Only say what would be done."`
	sealed
	output
}

// Run replaces a secret.
func (c *secretRotate) Run(ctx context.Context, a *app) error {
	return sealing{c.Session, c.Name, c.DryRun, c.sealed, c.output}.do(ctx, a, func(all []engine.Secret) ([]string, error) {
		for _, s := range all {
			if s.Name == c.Name {
				return s.Hosts, nil
			}
		}
		return nil, &fault{err: perdure.NotFound, what: fmt.Sprintf("there is no secret %q to replace", c.Name), todo: program + " secret set " + a.place() + c.Session + " " + quote(c.Name) + "  makes one"}
	})
}

// sealing is a secret that is written.
type sealing struct {
	session, name string
	dry           bool
	from          sealed
	out           output
}

// do finds out where it may be sent to, reads it, and writes it.
func (w sealing) do(ctx context.Context, a *app, hosts func([]engine.Secret) ([]string, error)) error {
	if err := w.out.suits(engine.Secret{}); err != nil {
		return err
	}
	return a.inSession(ctx, w.session, w.dry, func(eng Engine, s engine.Session) error {
		all, err := eng.Secrets(ctx, s.ID)
		if err != nil {
			return err
		}
		to, err := hosts(all)
		if err != nil {
			return err
		}
		if w.dry {
			a.say("would seal %s for %s", a.line(w.name, cellChars), s.ID)
			return nil
		}
		value, err := w.from.read(ctx, a, w.name)
		if err != nil {
			return err
		}
		if err := eng.SetSecret(ctx, s.ID, engine.SecretWrite{Name: w.name, Value: value, Hosts: to}); err != nil {
			return err
		}
		a.say("%s is sealed for %s", a.line(w.name, cellChars), s.ID)
		if all, err = eng.Secrets(ctx, s.ID); err != nil { // it is sealed, and to do it again would be another version
			a.say("how it stands now could not be read: %v", err)
			return nil
		}
		for _, secret := range all {
			if secret.Name == w.name {
				return w.out.quietly(ctx, a, secret.Name, secret)
			}
		}
		return nil
	})
}

type secretList struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	output
}

// Run lists secrets, never what they are.
func (c *secretList) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Secrets(ctx, s.ID)
		if err != nil {
			return err
		}
		now := a.now()
		return listing[engine.Secret]{
			noun: "secrets", head: []string{"NAME", "VERSION", "CHANGED", "MAY BE SENT TO"},
			name: func(s engine.Secret) string { return s.Name },
			row: func(s engine.Secret) []cell {
				to := "-"
				if len(s.Hosts) > 0 {
					to = strings.Join(s.Hosts, " ")
				}
				return []cell{{s.Name, bold}, {text: fmt.Sprint(s.Version)}, {text: ago(s.UpdatedAt, now)}, {text: to}}
			},
		}.print(ctx, a, c.output, all)
	})
}

type secretDelete struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Name    string `arg:"" help:"How tools call it."`
	DryRun  bool   `help:"Only say what would be done."`
	Yes     bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run removes a secret.
func (c *secretDelete) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.inSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		return removal{a, c.output, c.DryRun, c.Yes}.of(ctx, "secret", c.Name, func() error {
			return a.noValue(s, "secret", c.Name, eng.RemoveSecret(ctx, s.ID, c.Name))
		})
	})
}
