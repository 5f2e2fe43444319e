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

// maxInput limits what is read from stdin.
const maxInput = 1 << 20

type toolCommand struct {
	AllowShell bool `help:"Include bash, which requires --allow-shell."`

	List toolList `cmd:"" aliases:"ls" help:"List tools."`
	Show toolShow `cmd:"" help:"Show a tool and the schema of its arguments."`
	Call toolCall `cmd:"" help:"Call a tool once, outside any session. Works only for tools that can safely run twice."`
	Init toolInit `cmd:"" help:"Create a tool in Go with a crash test, in a new folder."`
}

type toolList struct{ outputFlags }

// tools describes how tools are listed.
func tools() outputList[engine.Tool] {
	return outputList[engine.Tool]{
		noun: "tools",
		head: []string{"TOOL", "CLASS", "BACKGROUND", "CAPABILITY", "DESCRIPTION"},
		name: func(t engine.Tool) string { return t.Name },
		row: func(t engine.Tool) []cell {
			first, _, _ := strings.Cut(t.Description, "\n")
			return []cell{{t.Name, bold}, {text: string(t.Class)}, {text: yesNo(t.Background)}, {text: t.Capability},
				{text: first}}
		},
	}
}

// Run lists the tools. It needs no data directory.
func (c *toolList) Run(ctx context.Context, a *app, noun *toolCommand) error {
	return a.with(ctx, OpenOptions{AllowShell: noun.AllowShell}, func(eng Engine) error {
		all, err := eng.Tools().List(ctx)
		if err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		return tools().print(ctx, a, c.outputFlags, all)
	})
}

type toolShow struct {
	Name string `arg:"" help:"Name of the tool."`
	outputFlags
}

// Run shows one tool.
func (c *toolShow) Run(ctx context.Context, a *app, noun *toolCommand) error {
	return a.with(ctx, OpenOptions{AllowShell: noun.AllowShell}, func(eng Engine) error {
		t, err := a.toolNamed(ctx, eng.Tools(), c.Name)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{t.Name, t, func() {
			a.fields(
				field{"tool", cell{t.Name, bold}},
				field{"class", cell{text: string(t.Class)}},
				field{"background", cell{text: yesNo(t.Background)}},
				field{"capability", cell{text: t.Capability}},
				field{"needs a session", cell{text: yesNo(t.NeedsEnv)}},
				field{"policy", cell{text: t.Policy}},
				field{"hints", cell{text: hintsText(t.Hints)}},
				field{"soft budget", cell{text: effectNote(t.SoftBudget)}},
				field{"deadline", cell{text: effectNote(t.Deadline)}},
				field{"description", cell{text: t.Description}},
				field{"arguments", cell{text: indented(t.Parameters)}},
			)
		}})
	})
}

// hintsText says in words what calls of a tool do.
func hintsText(h *engine.ToolHints) string {
	if h == nil {
		return ""
	}
	said := []string{"changes things"}
	if h.ReadOnly {
		said[0] = "changes nothing"
	}
	for _, hint := range []struct {
		holds bool
		text  string
	}{
		{h.Destructive, "may remove or replace things"},
		{h.Idempotent && !h.ReadOnly, "the same call again changes nothing more"},
		{h.OpenWorld, "reaches outside the session"},
		{h.RequiresSecrets, "works with secrets"},
		{h.LongRunning, "may take long"},
		{h.CPUBound, "uses the processor"},
		{h.PersistOutput, "may return a lot"},
		{h.Payment, "may pay"},
	} {
		if hint.holds {
			said = append(said, hint.text)
		}
	}
	return strings.Join(said, "; ")
}

type toolCall struct {
	Name      string `arg:"" help:"Name of the tool."`
	Arguments string `arg:"" optional:"" help:"JSON object with the arguments; - reads stdin. Default: {}."`
}

// Run calls a tool and prints the result that a model would read.
func (c *toolCall) Run(ctx context.Context, a *app, noun *toolCommand) error {
	args, err := c.arguments(a)
	if err != nil {
		return err
	}
	return a.with(ctx, OpenOptions{AllowShell: noun.AllowShell}, func(eng Engine) error {
		if _, err := a.toolNamed(ctx, eng.Tools(), c.Name); err != nil {
			return err
		}
		called := a.noteWait("the tool " + c.Name)
		result, err := eng.Tools().Call(ctx, c.Name, args)
		called()
		if err != nil {
			return err
		}
		if !result.IsError() {
			return a.jsonText(append(result.Result, '\n'))
		}
		failed := &userError{code: exitFailed, message: result.Error,
			hint: "nothing was recorded, because the call ran outside any session"}
		if result.NeverStarted {
			failed.code, failed.hint = exitUsage, program+" tool show "+c.Name+"  shows its arguments"
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
		return "", usageError(fmt.Sprintf("the input is larger than %d bytes", maxInput), "put it into the files of a session with "+program+" file put, and name its path")
	}
	return string(text), nil
}

// confirm asks the user for confirmation. Where nobody can be asked, only --yes confirms (C10).
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	unasked := ""
	switch {
	case yes:
		return nil
	case a.flags.NoInput:
		unasked = "--no-input was given"
	case !a.Terminal.Stdin:
		unasked = "there is no terminal to ask"
	}
	if unasked != "" {
		return &userError{code: exitApproval, message: "confirmation is needed, but " + unasked + "; nothing was changed",
			hint: "confirm with --yes"}
	}
	fmt.Fprintf(a.Stderr, "%s [y/N] ", a.oneLine(question, 300))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case answer := <-a.readLines(ctx):
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
	}
	return &userError{code: exitError, message: "not confirmed; nothing was changed",
		hint: "answer y or yes, or skip the question with --yes"}
}

// confirmName is confirm for irreversible actions: the user must type a word that belongs to this
// thing only.
func (a *app) confirmName(ctx context.Context, yes bool, question, word string) error {
	if yes || !a.Terminal.Stdin || a.flags.NoInput {
		return a.confirm(ctx, yes, question)
	}
	fmt.Fprintf(a.Stderr, "%s\ntype %s to confirm: ", a.oneLine(question, 300), word)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case answer := <-a.readLines(ctx):
		if strings.TrimSpace(answer) == word {
			return nil
		}
	}
	return &userError{code: exitError, message: "not confirmed, since " + word + " was not typed; nothing was changed",
		hint: "skip the question with --yes"}
}

// lastDigits returns the end of an id, which differs between ids of the same millisecond.
func lastDigits(id string) string {
	const n = 6
	return id[max(len(id)-n, 0):]
}

// toolNamed finds a tool; its name cannot be abbreviated.
func (a *app) toolNamed(ctx context.Context, eng engine.Tools, name string) (engine.Tool, error) {
	all, err := eng.List(ctx)
	if err != nil {
		return engine.Tool{}, fmt.Errorf("list tools: %w", err)
	}
	i := slices.IndexFunc(all, func(t engine.Tool) bool { return t.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	if name == ShellTool {
		return engine.Tool{}, &userError{err: perdure.NotFound, message: "bash is available only with --allow-shell",
			hint: program + " tool show --allow-shell bash"}
	}
	var candidates []candidate
	for _, t := range all {
		candidates = append(candidates, candidate{id: t.Name})
	}
	_, err = a.kind("tool").choose(name, candidates)
	var several *userError
	if err == nil || errors.As(err, &several) && !errors.Is(err, perdure.NotFound) {
		err = &userError{err: perdure.NotFound, message: fmt.Sprintf("there is no tool %q", name),
			hint: a.kind("tool").hint(name, candidates)}
	}
	return engine.Tool{}, err
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// effectNote formats a time limit of a tool; a negative one means no limit.
func effectNote(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return d.String()
}

// indented formats JSON for people; other text stays as it is.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}
