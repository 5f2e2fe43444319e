package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/perdure/perdure"
)

// edit lets the person change the arguments, and shows what would run then. What cannot be read changes nothing.
func (q *questions) edit(ctx context.Context, one *asked) error {
	a := q.c.a
	before := one.approval.Args
	if one.instead != nil {
		before = one.instead
	}
	text, err := q.edited(ctx, before)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.say("nothing was changed: %s", a.line(err.Error(), 300))
		return nil
	}
	args, err := perdure.CanonicalJSON([]byte(text))
	if err == nil && !bytes.HasPrefix(bytes.TrimSpace(args), []byte("{")) {
		err = fmt.Errorf("%w: arguments are a JSON object", perdure.Invalid)
	}
	if err != nil {
		a.say("nothing was changed: %s", a.line(err.Error(), 300))
		return nil
	}
	one.instead = args
	if same, err := perdure.CanonicalJSON(one.approval.Args); err == nil && bytes.Equal(same, args) {
		one.instead = nil
		a.say("these are the arguments of the call, unchanged")
		return nil
	}
	a.say("with a yes this runs instead:")
	a.fieldsOn(a.Stderr, a.paint.talk, a.whatRuns(one.instead))
	return nil
}

// edited is what the person makes of arguments, in the editor of the environment, else in a line of the terminal.
func (q *questions) edited(ctx context.Context, args json.RawMessage) (string, error) {
	a := q.c.a
	editor := a.Env("VISUAL")
	if editor == "" {
		editor = a.Env("EDITOR")
	}
	if editor == "" || a.Edit == nil {
		return q.typed(ctx, args)
	}
	file, err := os.CreateTemp("", "perdure-arguments-*.json") // for its owner alone
	if err != nil {
		return "", fmt.Errorf("make a file for the editor: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(string(plainJSON([]byte(indented(args)))) + "\n")
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("write the arguments for the editor: %w", err)
	}
	q.state.Store(editing)
	if err := a.Edit(ctx, editor, file.Name()); err != nil {
		return "", fmt.Errorf("%s: %w", editor, err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		return "", fmt.Errorf("read what the editor wrote: %w", err)
	}
	return string(text), nil
}

// typed is a line that stands for the arguments: JSON, or the command where that is all that the call has.
func (q *questions) typed(ctx context.Context, args json.RawMessage) (string, error) {
	q.c.a.say("no editor: $VISUAL and $EDITOR are not set")
	var only map[string]json.RawMessage
	_ = perdure.DecodeKnownJSON(args, &only) // what is no object has no command
	_, command := only["command"]
	prompt := "arguments, as JSON in one line: "
	if command {
		prompt = "command, or all arguments as JSON in one line: "
	}
	q.state.Store(editing)
	q.put(prompt)
	defer q.put("")
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case line, more := <-q.c.answers.next():
		q.c.answers.took()
		line = strings.TrimSpace(line)
		switch {
		case !more || line == "":
			return string(args), nil
		case !command || strings.HasPrefix(line, "{"):
			return line, nil
		}
		text, err := json.Marshal(line)
		if err != nil {
			return "", err
		}
		only["command"] = text
		whole, err := json.Marshal(only)
		return string(whole), err
	}
}
