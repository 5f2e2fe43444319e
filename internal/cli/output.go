package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/perdure/perdure/internal/cli/form"
)

// output is how lists and shows are printed (C2).
type output struct {
	Output   string   `short:"o" help:"How to print it: table, json, jsonl, yaml, name or none." placeholder:"FORM" enum:"table,json,jsonl,yaml,name,none" default:"table"`
	Fields   []string `name:"json" help:"Print only these fields, as JSON or in the form of -o." placeholder:"FIELD"`
	JQ       string   `name:"jq" help:"Print what an expression of jq makes of the JSON." placeholder:"EXPR"`
	Template string   `help:"Print what a Go template makes of the JSON." placeholder:"TEXT"`
}

func (o output) choice() form.Choice {
	return form.Choice{Output: o.Output, Fields: o.Fields, JQ: o.JQ, Template: o.Template}
}

// check refuses, before anything is opened, what could never be printed.
func (o output) check() error { return misformed(o.choice().Check()) }

// misformed makes a fault of the command line of what cannot be printed.
func misformed(err error) error {
	var bad *form.Fault
	if errors.As(err, &bad) {
		return &fault{err: err, code: exitUsage, what: bad.What, todo: bad.Todo}
	}
	return err
}

// write prints a value in a form for scripts.
func (o output) write(ctx context.Context, a *app, v any) error {
	var text bytes.Buffer
	failed := misformed(o.choice().Write(ctx, &text, v))
	if isJSON := o.JQ == "" && o.Template == "" && o.Output != form.YAML; isJSON {
		return errors.Join(failed, a.jsonText(text.Bytes()))
	}
	out := text.String()
	if a.Terminal.Stdout && !a.flags.Raw {
		out = plain(out)
	}
	_, err := io.WriteString(a.out, out)
	return errors.Join(failed, err)
}

// cell is one place of a table.
type cell struct {
	text  string
	color color
}

// listing says how things of one kind are printed.
type listing[T any] struct {
	noun string // of what there is none, in the plural
	head []string
	row  func(T) []cell
	name func(T) string
	tell func([]T) // prints them for people; nil: a table does
}

// print writes things in the form that was asked for.
func (l listing[T]) print(ctx context.Context, a *app, o output, things []T) error {
	switch {
	case o.Output == form.Name:
		for _, thing := range things {
			fmt.Fprintln(a.out, a.line(l.name(thing), idChars))
		}
	case !o.choice().ForPeople():
		if things == nil {
			things = []T{}
		}
		return o.write(ctx, a, things)
	case len(things) == 0:
		a.say("no %s", l.noun)
	case l.tell != nil:
		l.tell(things)
	default:
		rows := [][]cell{}
		for _, thing := range things {
			rows = append(rows, l.row(thing))
		}
		a.table(l.head, rows)
	}
	return nil
}

// shown is one thing to print.
type shown struct {
	name  string
	thing any
	tell  func() // prints it for people
}

// show writes one thing.
func (o output) show(ctx context.Context, a *app, s shown) error {
	switch {
	case o.Output == form.Name:
		fmt.Fprintln(a.out, a.line(s.name, idChars))
	case !o.choice().ForPeople():
		return o.write(ctx, a, s.thing)
	default:
		s.tell()
	}
	return nil
}

// json writes a value. On a terminal, what could drive it is escaped; the value is the same.
func (a *app) json(v any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return a.jsonText(text.Bytes())
}

func (a *app) jsonText(text []byte) error {
	if a.Terminal.Stdout && !a.flags.Raw {
		text = plainJSON(text)
	}
	_, err := a.out.Write(text)
	return err
}

// cellChars bounds a cell of a table, but for the last of its row, which wraps where it will.
const cellChars = 60

// idChars bounds an id, which is printed whole: what is cut off finds nothing. The id of a call comes from a model, and is the longest.
const idChars = 4096

// isID reports whether a text is an id of Perdure, or the id of a call of a session.
func isID(text string) bool {
	noun, digits, _ := strings.Cut(text, "_")
	digits, _, _ = strings.Cut(digits, "/")
	return noun != "" && len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
}

// table writes columns below their titles.
func (a *app) table(head []string, rows [][]cell) {
	top := []cell{}
	for _, title := range head {
		top = append(top, cell{title, dim})
	}
	a.rows(append([][]cell{top}, rows...))
}

// rows writes columns, of which each row has the same number. Widths are counted before colours.
func (a *app) rows(rows [][]cell) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			most := cellChars
			if isID(row[i].text) {
				most = idChars
			}
			row[i].text = a.line(row[i].text, most)
			widths[i] = max(widths[i], columns(row[i].text))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			gap := strings.Repeat(" ", widths[i]-columns(c.text)+2)
			b.WriteString(a.paint.data.in(c.color, c.text) + gap)
		}
		fmt.Fprintln(a.out, strings.TrimRight(b.String(), " "))
	}
}

// field is one line of a show: its name, and what stands there.
type field struct {
	name string
	cell
}

// fields writes what is there of one thing, a line each. A text of several lines is indented below its name.
func (a *app) fields(all ...field) { a.fieldsOn(a.out, a.paint.data, all) }

// fieldsOn is fields for either stream.
func (a *app) fieldsOn(w io.Writer, paint brush, all []field) {
	width := 0
	for _, f := range all {
		if f.text != "" {
			width = max(width, len(f.name))
		}
	}
	for _, f := range all {
		if f.text == "" {
			continue
		}
		gap := strings.Repeat(" ", width-len(f.name)+2)
		text := strings.ReplaceAll(a.text(strings.TrimRight(f.text, "\n")), "\n", "\n"+strings.Repeat(" ", width+2))
		fmt.Fprintln(w, paint.in(dim, f.name)+gap+paint.in(f.color, text))
	}
}
