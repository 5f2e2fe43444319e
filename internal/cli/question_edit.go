package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

// edit lets the user change the arguments, and shows what would run then. Invalid input changes
// nothing.
func (q *questions) edit(ctx context.Context, one *openQuestion) error {
	a := q.c.a
	before := one.approval.Args
	if one.editedArgs != nil {
		before = one.editedArgs
	}
	text, err := q.edited(ctx, before)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.message("nothing was changed: %s", a.oneLine(err.Error(), 300))
		return nil
	}
	args, err := strictjson.Canonical([]byte(text))
	if err == nil && !bytes.HasPrefix(bytes.TrimSpace(args), []byte("{")) {
		err = fmt.Errorf("%w: arguments must be a JSON object", perdure.Invalid)
	}
	if err != nil {
		a.message("nothing was changed: %s", a.oneLine(err.Error(), 300))
		return nil
	}
	one.editedArgs = args
	if same, err := strictjson.Canonical(one.approval.Args); err == nil && bytes.Equal(same, args) {
		one.editedArgs = nil
		a.message("the arguments are unchanged")
		return nil
	}
	a.message("if you approve, this runs instead:")
	a.fieldsOn(a.Stderr, a.colors.stderr, approvalText{a}.describeCall(one.editedArgs))
	return nil
}

// edited returns arguments as the user changed them: in the editor of the environment, or else in a
// line of the terminal.
func (q *questions) edited(ctx context.Context, args json.RawMessage) (string, error) {
	a := q.c.a
	editor := a.Env("VISUAL")
	if editor == "" {
		editor = a.Env("EDITOR")
	}
	if editor == "" || a.Edit == nil {
		return q.typed(ctx, args)
	}
	file, err := os.CreateTemp("", "perdure-arguments-*.json") // readable by its owner only
	if err != nil {
		return "", fmt.Errorf("make a file for the editor: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(string(printableJSON([]byte(indented(args)))) + "\n")
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

// typed reads a line that replaces the arguments: JSON, or a command if the call has one.
func (q *questions) typed(ctx context.Context, args json.RawMessage) (string, error) {
	q.c.a.message("no editor: $VISUAL and $EDITOR are not set")
	var only map[string]json.RawMessage
	_ = perdure.DecodeKnownJSON(args, &only) // without a JSON object there is no command
	_, command := only["command"]
	prompt := "arguments, as JSON in one line: "
	if command {
		prompt = "command, or all arguments as JSON in one line: "
	}
	q.state.Store(editing)
	q.printPrompt(prompt)
	defer q.printPrompt("")
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case line, more := <-q.c.answers.next():
		q.c.answers.received()
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
		full, err := json.Marshal(only)
		return string(full), err
	}
}
