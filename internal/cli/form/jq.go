package form

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

// jqTime bounds an expression, which may be an endless loop.
const jqTime = 10 * time.Second

// whatItGets tells how to see what an expression works on.
const whatItGets = "-o json shows what it works on"

// expression compiles the jq expression; nil: there is none. It has no environment, no files and no input but
// the value.
func (c Choice) expression() (*gojq.Code, error) {
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
		return nil, c.misplaced(err, at)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, c.misplaced(err, c.nameOf(err))
	}
	return code, nil
}

// nameOf finds the function or variable that a compiler does not know; -1: it is not to be found.
func (c Choice) nameOf(err error) int {
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

// misplaced points at the byte of the expression that is wrong.
func (c Choice) misplaced(err error, at int) error {
	what := "--jq: " + err.Error()
	if at >= 0 && at <= len(c.JQ) {
		place := utf8.RuneCountInString(c.JQ[:at])
		what += fmt.Sprintf(" at character %d", place+1)
		if !strings.Contains(c.JQ, "\n") {
			what += "\n" + c.JQ + "\n" + strings.Repeat(" ", place) + "^"
		}
	}
	return &Fault{What: what, Todo: whatItGets}
}

// writeAnswers runs the expression and writes what it answers, each as it comes. Where no form was asked for,
// a text is written as it is.
func (c Choice) writeAnswers(ctx context.Context, w io.Writer, value any) error {
	code, err := c.expression()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, jqTime)
	defer stop()
	for answers, first := code.RunWithContext(ctx, value), true; ; first = false {
		answer, more := answers.Next()
		if ctx.Err() != nil {
			return fmt.Errorf("--jq has not come to its end: %w", ctx.Err())
		}
		if !more {
			return nil
		}
		var halt *gojq.HaltError
		switch failed, isError := answer.(error); {
		case isError && errors.As(failed, &halt) && halt.Value() == nil:
			return nil
		case isError:
			return &Fault{What: "--jq: " + failed.Error(), Todo: whatItGets}
		}
		if err := c.writeAnswer(w, answer, first); err != nil {
			return err
		}
	}
}

func (c Choice) writeAnswer(w io.Writer, answer any, first bool) error {
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

// decode reads JSON of our own into what jq works on, with exact numbers.
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
