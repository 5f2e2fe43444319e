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
	Set    secretSet    `cmd:"" help:"Store a secret for the tools of a session. It is read from stdin, a file or a hidden prompt."`
	Rotate secretRotate `cmd:"" help:"Replace the value of a secret. Its hosts stay the same."`
	List   secretList   `cmd:"" aliases:"ls" help:"List the secrets of a session. Their values cannot be read."`
	Delete secretDelete `cmd:"" aliases:"rm" help:"Delete a secret."`
}

// secretInput are the flags for the value of a secret. The value itself is never a flag or an
// argument (C11).
type secretInput struct {
	File string `help:"Read the value from this file instead of stdin or a prompt. One trailing newline is removed." placeholder:"FILE" type:"path"`
}

// read returns the value of the secret.
func (f secretInput) read(ctx context.Context, a *app, name string) (string, error) {
	switch {
	case f.File == "" && a.Terminal.Stdin:
		return a.readHidden(ctx, "value of "+name)
	case f.File == "":
		f.File = "-"
	}
	text, err := fileText{a}.localFile(f.File)
	value := string(text)
	for _, end := range []string{"\n", "\r"} {
		if n := len(value) - 1; n >= 0 && value[n:] == end {
			value = value[:n]
		}
	}
	if err == nil && value == "" {
		err = usageError("the value is empty", "pipe it to stdin, or name a file with --file")
	}
	return value, err
}

// readHidden asks for a line that is not shown while it is typed.
func (a *app) readHidden(ctx context.Context, what string) (string, error) {
	if a.flags.NoInput {
		return "", &userError{code: exitApproval,
			message: "the value must be typed, but --no-input was given; nothing was changed",
			hint:    "pipe it to stdin, or name a file with --file"}
	}
	if a.RawKeys == nil {
		return "", usageError("this terminal cannot hide input", "pipe it to stdin, or name a file with --file")
	}
	restore, err := a.RawKeys()
	if err != nil {
		return "", usageError("this terminal cannot hide input: "+err.Error(),
			"pipe it to stdin, or name a file with --file")
	}
	defer func() { _ = restore() }() // the input is valid even if this fails
	fmt.Fprintf(a.Stderr, "%s (not shown): ", a.oneLine(what, cellChars))
	at := &attachment{a: a, detach: make(chan struct{}), echo: io.Discard}
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-at.detach:
	case line, more := <-at.sendInput(ctx):
		a.message("")
		if more && line != "" {
			return line, nil
		}
	}
	return "", &userError{code: exitError, message: "the value is empty; nothing was changed",
		hint: "type a value, or pipe it to stdin"}
}

type secretSet struct {
	Session string   `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Name    string   `arg:"" help:"Name that tools use."`
	Host    []string `help:"Allow sending it to this host; without hosts it is only for the environment of commands. Repeatable." placeholder:"HOST"`
	DryRun  bool     `help:"Print what would be done, without doing it."`
	secretInput
	outputFlags
}

// Run stores a secret.
func (c *secretSet) Run(ctx context.Context, a *app) error {
	return secretWrite{c.Session, c.Name, c.DryRun, c.secretInput, c.outputFlags}.do(ctx, a,
		func([]engine.Secret) ([]string, error) { return c.Host, nil })
}

type secretRotate struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Name    string `arg:"" help:"Name that tools use."`
	DryRun  bool   `help:"Print what would be done, without doing it."`
	secretInput
	outputFlags
}

// Run replaces a secret.
func (c *secretRotate) Run(ctx context.Context, a *app) error {
	return secretWrite{c.Session, c.Name, c.DryRun, c.secretInput, c.outputFlags}.do(ctx, a,
		func(all []engine.Secret) ([]string, error) {
			for _, s := range all {
				if s.Name == c.Name {
					return s.Hosts, nil
				}
			}
			return nil, &userError{err: perdure.NotFound, message: fmt.Sprintf("there is no secret %q to replace", c.Name),
				hint: program + " secret set " + a.storeFlags() + c.Session + " " + quote(c.Name) + "  creates one"}
		})
}

// secretWrite is a write of a secret.
type secretWrite struct {
	session, name string
	dry           bool
	from          secretInput
	out           outputFlags
}

// do determines the hosts, reads the value, and stores it.
func (w secretWrite) do(ctx context.Context, a *app, hosts func([]engine.Secret) ([]string, error)) error {
	if err := w.out.checkFields(engine.Secret{}); err != nil {
		return err
	}
	return a.onSession(ctx, w.session, w.dry, func(eng Engine, s engine.Session) error {
		all, err := eng.Secrets().List(ctx, s.ID)
		if err != nil {
			return err
		}
		to, err := hosts(all)
		if err != nil {
			return err
		}
		if w.dry {
			a.message("would store %s for %s", a.oneLine(w.name, cellChars), s.ID)
			return nil
		}
		value, err := w.from.read(ctx, a, w.name)
		if err != nil {
			return err
		}
		if err := eng.Secrets().Set(ctx, s.ID, engine.SecretWrite{Name: w.name, Value: value, Hosts: to}); err != nil {
			return err
		}
		a.message("stored %s for %s", a.oneLine(w.name, cellChars), s.ID)
		if all, err = eng.Secrets().List(ctx, s.ID); err != nil { // it is stored; a retry would create another version
			a.message("could not read it back: %v", err)
			return nil
		}
		for _, secret := range all {
			if secret.Name == w.name {
				return w.out.showForPrograms(ctx, a, secret.Name, secret)
			}
		}
		return nil
	})
}

type secretList struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	outputFlags
}

// Run lists secrets, never their values.
func (c *secretList) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Secrets().List(ctx, s.ID)
		if err != nil {
			return err
		}
		now := a.now()
		return outputList[engine.Secret]{
			noun: "secrets", head: []string{"NAME", "VERSION", "CHANGED", "HOSTS"},
			name: func(s engine.Secret) string { return s.Name },
			row: func(s engine.Secret) []cell {
				to := "-"
				if len(s.Hosts) > 0 {
					to = strings.Join(s.Hosts, " ")
				}
				return []cell{{s.Name, bold}, {text: fmt.Sprint(s.Version)}, {text: ago(s.UpdatedAt, now)}, {text: to}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

type secretDelete struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Name    string `arg:"" help:"Name that tools use."`
	deleteFlags
}

// Run deletes a secret.
func (c *secretDelete) Run(ctx context.Context, a *app) error {
	return c.flags().onSession(ctx, a, c.Session, deletedOutput{}, func(eng Engine, s engine.Session) error {
		return c.remove(ctx, a, "secret", c.Name, func() error {
			return a.valueNotFound(s, "secret", c.Name, eng.Secrets().Remove(ctx, s.ID, c.Name))
		})
	})
}
