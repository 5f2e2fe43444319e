package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// jqTime limits an expression, which may be an endless loop.
const jqTime = 10 * time.Second

// inputName says how to see the input of an expression.
const inputName = "-o json shows its input"

// expression compiles the jq expression; nil: there is none. It has no environment, no files and no
// input except the value.
func (c Options) expression() (*gojq.Code, error) {
	if c.JQ == "" {
		return nil, nil
	}
	query, err := gojq.Parse(c.JQ)
	if err != nil {
		at := len(c.JQ)
		var bad *gojq.ParseError
		if errors.As(err, &bad) && bad.Token != "" {
			at = max(bad.Offset-len(bad.Token), 0)
		}
		return nil, c.expressionError(err, at)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, c.expressionError(err, c.nameOf(err))
	}
	return code, nil
}

// nameOf returns the position of the unknown function or variable of a compiler error; -1: not
// found.
func (c Options) nameOf(err error) int {
	_, name, _ := strings.Cut(err.Error(), ": ")
	name, _, _ = strings.Cut(name, "/")
	if name == "" {
		return -1
	}
	found := regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).FindStringIndex(c.JQ)
	if found == nil {
		return -1
	}
	return found[0]
}

// expressionError points at the position of an error in the expression.
func (c Options) expressionError(err error, at int) error {
	what := "--jq: " + err.Error()
	if at >= 0 && at <= len(c.JQ) {
		place := utf8.RuneCountInString(c.JQ[:at])
		what += fmt.Sprintf(" at character %d", place+1)
		if !strings.Contains(c.JQ, "\n") {
			what += "\n" + c.JQ + "\n" + strings.Repeat(" ", place) + "^"
		}
	}
	return &UsageError{Message: what, Hint: inputName}
}

// writeAnswers runs the expression and writes its results as they arrive. With the format Table, a
// text is written without quotes.
func (c Options) writeAnswers(ctx context.Context, w io.Writer, value any) error {
	code, err := c.expression()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, jqTime)
	defer stop()
	for answers, first := code.RunWithContext(ctx, value), true; ; first = false {
		answer, more := answers.Next()
		if ctx.Err() != nil {
			return fmt.Errorf("--jq did not finish: %w", ctx.Err())
		}
		if !more {
			return nil
		}
		var halt *gojq.HaltError
		switch failed, isError := answer.(error); {
		case isError && errors.As(failed, &halt) && halt.Value() == nil:
			return nil
		case isError:
			return &UsageError{Message: "--jq: " + failed.Error(), Hint: inputName}
		}
		if err := c.writeAnswer(w, answer, first); err != nil {
			return err
		}
	}
}

func (c Options) writeAnswer(w io.Writer, answer any, first bool) error {
	text, isText := answer.(string)
	if c.Output == Table && isText {
		_, err := io.WriteString(w, text+"\n")
		return err
	}
	if c.Output == YAML && !first {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
	}
	if c.Output == YAML {
		return writeYAML(w, answer, nil)
	}
	line, err := gojq.Marshal(answer)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	var out bytes.Buffer
	out.Write(line)
	if c.Output == JSON {
		out.Reset()
		if err := json.Indent(&out, line, "", "  "); err != nil {
			return fmt.Errorf("indent JSON: %w", err)
		}
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}

// decode decodes JSON into the input of jq, with exact numbers.
func decode(ctx context.Context, text []byte) (any, error) {
	query, err := gojq.Parse("fromjson")
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	value, _ := query.RunWithContext(ctx, string(text)).Next()
	if err, failed := value.(error); failed {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return value, nil
}
