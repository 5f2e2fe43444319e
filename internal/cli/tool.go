package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// maxInput bounds what is read from stdin.
const maxInput = 1 << 20

type toolCommand struct {
	AllowShell bool `help:"Show bash, too, which runs with --allow-shell only."`

	List toolList `cmd:"" help:"List the tools."`
	Show toolShow `cmd:"" help:"Show a tool and the schema of its arguments."`
	Call toolCall `cmd:"" help:"Call a tool once, outside any session. Only what may safely run twice can be called so."`
	Init toolInit `cmd:"" help:"Write a tool in Go, and a test that kills the runtime around it, into a new folder."`
}

type toolList struct{ output }

// tools is how tools are listed.
func tools() listing[engine.Tool] {
	return listing[engine.Tool]{
		noun: "tools",
		head: []string{"TOOL", "CLASS", "BACKGROUND", "CAPABILITY", "DESCRIPTION"},
		name: func(t engine.Tool) string { return t.Name },
		row: func(t engine.Tool) []cell {
			first, _, _ := strings.Cut(t.Description, "\n")
			return []cell{{t.Name, bold}, {text: string(t.Class)}, {text: yesNo(t.Background)}, {text: t.Capability}, {text: first}}
		},
	}
}

// Run lists the tools. No data directory is needed.
func (c *toolList) Run(ctx context.Context, a *app, noun *toolCommand) error {
	return a.with(ctx, Opening{AllowShell: noun.AllowShell}, func(eng Engine) error {
		all, err := eng.Tools(ctx)
		if err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		return tools().print(ctx, a, c.output, all)
	})
}

type toolShow struct {
	Name string `arg:"" help:"Its name."`
	output
}

// Run shows one tool.
func (c *toolShow) Run(ctx context.Context, a *app, noun *toolCommand) error {
	return a.with(ctx, Opening{AllowShell: noun.AllowShell}, func(eng Engine) error {
		t, err := a.toolNamed(ctx, eng, c.Name)
		if err != nil {
			return err
		}
		return c.show(ctx, a, shown{t.Name, t, func() {
			a.fields(
				field{"tool", cell{t.Name, bold}},
				field{"class", cell{text: string(t.Class)}},
				field{"background", cell{text: yesNo(t.Background)}},
				field{"capability", cell{text: t.Capability}},
				field{"needs a session", cell{text: yesNo(t.NeedsEnv)}},
				field{"policy", cell{text: t.Policy}},
				field{"soft budget", cell{text: lasting(t.SoftBudget)}},
				field{"deadline", cell{text: lasting(t.Deadline)}},
				field{"description", cell{text: t.Description}},
				field{"arguments", cell{text: indented(t.Parameters)}},
			)
		}})
	})
}

type toolCall struct {
	Name      string `arg:"" help:"Its name."`
	Arguments string `arg:"" optional:"" help:"A JSON object; - reads it from stdin. Not given: {}."`
}

// Run calls a tool and prints what a model would read.
func (c *toolCall) Run(ctx context.Context, a *app, noun *toolCommand) error {
	args, err := c.arguments(a)
	if err != nil {
		return err
	}
	return a.with(ctx, Opening{AllowShell: noun.AllowShell}, func(eng Engine) error {
		if _, err := a.toolNamed(ctx, eng, c.Name); err != nil {
			return err
		}
		result, err := eng.CallTool(ctx, c.Name, args)
		if err != nil {
			return err
		}
		if !result.IsError() {
			return a.jsonText(append(result.Result, '\n'))
		}
		failed := &fault{code: exitFailed, what: result.Error, todo: "nothing was recorded: the call ran outside of any session"}
		if result.NeverStarted {
			failed.code, failed.todo = exitUsage, program+" tool show "+c.Name+"  shows what it takes"
		}
		return failed
	})
}

func (c *toolCall) arguments(a *app) (json.RawMessage, error) {
	switch c.Arguments {
	case "":
		return json.RawMessage(`{}`), nil
	case "-":
		text, err := a.readInput()
		return json.RawMessage(text), err
	}
	return json.RawMessage(c.Arguments), nil
}

// readInput reads stdin to its end.
func (a *app) readInput() (string, error) {
	text, err := io.ReadAll(io.LimitReader(a.stdin, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("read stdin: %w", err)
	}
	if len(text) > maxInput {
		return "", misuse(fmt.Sprintf("stdin holds more than %d bytes", maxInput), "")
	}
	return string(text), nil
}

// confirm asks a person whether to go on. Where no terminal is, the command itself is the answer, unless --no-input
// is in it: then nothing but --yes is (C10).
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if a.flags.NoInput {
		return &fault{code: exitApproval, what: "this needs a yes, and --no-input was given; nothing was changed", todo: "--yes says it"}
	}
	if !a.Terminal.Stdin {
		return nil
	}
	fmt.Fprintf(a.Stderr, "%s [y/N] ", a.line(question, 300))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case answer := <-a.readLines(ctx):
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
	}
	return &fault{code: exitError, what: "nothing was changed: the answer was no", todo: "y or yes means yes, and --yes leaves the question out"}
}

// confirmName is confirm for what nobody can undo: it wants a word typed that only somebody types who means just this thing.
func (a *app) confirmName(ctx context.Context, yes bool, question, word string) error {
	if yes || !a.Terminal.Stdin || a.flags.NoInput {
		return a.confirm(ctx, yes, question)
	}
	fmt.Fprintf(a.Stderr, "%s\ntype %s to go on: ", a.line(question, 300), word)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case answer := <-a.readLines(ctx):
		if strings.TrimSpace(answer) == word {
			return nil
		}
	}
	return &fault{code: exitError, what: "nothing was changed: " + word + " was not typed", todo: "--yes leaves the question out"}
}

// lastDigits are the end of an id, by which one is told from those that began at the same time.
func lastDigits(id string) string {
	const n = 6
	return id[max(len(id)-n, 0):]
}

// toolNamed finds a tool; names are not cut short.
func (a *app) toolNamed(ctx context.Context, eng engine.Tools, name string) (engine.Tool, error) {
	all, err := eng.Tools(ctx)
	if err != nil {
		return engine.Tool{}, fmt.Errorf("list tools: %w", err)
	}
	i := slices.IndexFunc(all, func(t engine.Tool) bool { return t.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	if name == ShellTool {
		return engine.Tool{}, &fault{err: perdure.NotFound, what: "bash is not there without --allow-shell", todo: program + " tool show --allow-shell bash"}
	}
	var candidates []candidate
	for _, t := range all {
		candidates = append(candidates, candidate{id: t.Name})
	}
	_, err = a.kind("tool").choose(name, candidates)
	var several *fault
	if err == nil || errors.As(err, &several) && !errors.Is(err, perdure.NotFound) {
		err = &fault{err: perdure.NotFound, what: fmt.Sprintf("there is no tool %q", name), todo: a.kind("tool").hint(name, candidates)}
	}
	return engine.Tool{}, err
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// lasting writes a clock of a tool; a negative one never strikes.
func lasting(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return d.String()
}

// indented writes JSON for people; what is none stays as it is.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}
