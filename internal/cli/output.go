package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/perdure/perdure/internal/cli/output"
)

// outputFlags are the output flags of commands that list or show.
type outputFlags struct {
	Output   string   `short:"o" help:"Output format: table, wide (a table with more columns, and nothing shortened), json, jsonl, yaml, name or none." placeholder:"FORMAT" enum:"table,wide,json,jsonl,yaml,name,none" default:"table"`
	Fields   []string `name:"json" help:"Print only these fields, as JSON or in the format of -o." placeholder:"FIELD"`
	JQ       string   `name:"jq" help:"Filter the JSON with a jq expression." placeholder:"EXPR"`
	Template string   `help:"Format the JSON with a Go template." placeholder:"TEXT"`
}

func (o outputFlags) choice() output.Options {
	format := o.Output
	if o.isWide() {
		format = output.Table
	}
	return output.Options{Output: format, Fields: o.Fields, JQ: o.JQ, Template: o.Template}
}

// isWide reports whether a table has all its columns, and nothing in it is shortened.
func (o outputFlags) isWide() bool { return o.Output == "wide" }

// check refuses invalid output flags before anything is opened.
func (o outputFlags) check() error { return outputError(o.choice().Check()) }

// outputError turns an error of package form into a usage error.
func outputError(err error) error {
	var bad *output.UsageError
	if errors.As(err, &bad) {
		return &userError{err: err, code: exitUsage, message: bad.Message, hint: bad.Hint}
	}
	return err
}

// write prints a value in a format for scripts.
func (o outputFlags) write(ctx context.Context, a *app, v any) error {
	var text bytes.Buffer
	failed := outputError(o.choice().Write(ctx, &text, v))
	if isJSON := o.JQ == "" && o.Template == "" && o.Output != output.YAML; isJSON {
		return errors.Join(failed, a.jsonText(text.Bytes()))
	}
	out := text.String()
	if a.Terminal.Stdout && !a.flags.Raw {
		out = printable(out)
	}
	_, err := io.WriteString(a.out, out)
	return errors.Join(failed, err)
}

// cell is one cell of a table.
type cell struct {
	text  string
	color color
}

// outputList describes how things of one kind are printed.
type outputList[T any] struct {
	noun string // in the plural, for an empty list
	none string // the message for an empty list; empty: there are none of the noun
	head []string
	row  func(T) []cell
	name func(T) string
	wide func(T) []field // further columns of a wide table; nil: none
	tell func([]T)       // prints them on a terminal; nil: as a table
}

// print writes things in the chosen format.
func (l outputList[T]) print(ctx context.Context, a *app, o outputFlags, things []T) error {
	switch {
	case o.Output == output.Name:
		for _, thing := range things {
			fmt.Fprintln(a.out, a.oneLine(l.name(thing), idChars))
		}
	case !o.choice().IsTable():
		if things == nil {
			things = []T{}
		}
		return o.write(ctx, a, things)
	case len(things) == 0:
		a.message("%s", cmp.Or(l.none, "no "+l.noun))
	case l.tell != nil:
		l.tell(things)
	default:
		a.printTable(l.cells(things, o.isWide()), o.isWide())
	}
	return nil
}

// cells returns the rows of the table, the titles first.
func (l outputList[T]) cells(things []T, wide bool) [][]cell {
	rows := [][]cell{titles(l.head)}
	for _, thing := range things {
		row := l.row(thing)
		if wide && l.wide != nil {
			for _, more := range l.wide(thing) {
				row = append(row, more.cell)
				if len(rows) == 1 {
					rows[0] = append(rows[0], cell{more.name, dim})
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// titles returns the first row of a table.
func titles(head []string) (top []cell) {
	for _, title := range head {
		top = append(top, cell{title, dim})
	}
	return top
}

// outputObject is one thing to print.
type outputObject struct {
	name  string
	thing any
	tell  func() // prints it on a terminal
}

// show writes one thing in the chosen format.
func (o outputFlags) show(ctx context.Context, a *app, s outputObject) error {
	switch {
	case o.Output == output.Name:
		fmt.Fprintln(a.out, a.oneLine(s.name, idChars))
	case !o.choice().IsTable():
		return o.write(ctx, a, s.thing)
	default:
		s.tell()
	}
	return nil
}

// json writes a value. On a terminal, control characters are escaped; the value stays the same.
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
		text = printableJSON(text)
	}
	_, err := a.out.Write(text)
	return err
}

// cellChars is the maximum width of a cell, except for the last cell of a row, which may wrap.
const cellChars = 60

// idChars is the maximum length of an id. Ids are printed in full, because a truncated id finds
// nothing. The longest are call ids, which come from a model.
const idChars = 4096

// isID reports whether a text is an id of Perdure, or the id of a call of a session.
func isID(text string) bool {
	noun, digits, _ := strings.Cut(text, "_")
	digits, _, _ = strings.Cut(digits, "/")
	return noun != "" && len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
}

// table writes columns below their titles.
func (a *app) table(head []string, rows [][]cell) {
	a.rows(append([][]cell{titles(head)}, rows...))
}

// rows writes columns; all rows have the same number of cells.
func (a *app) rows(rows [][]cell) { a.printTable(rows, false) }

// printTable is rows. A wide table shortens no cell. Widths are computed before colors are added.
func (a *app) printTable(rows [][]cell, wide bool) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			limit := cellChars
			if wide || isID(row[i].text) {
				limit = idChars
			}
			row[i].text = a.oneLine(row[i].text, limit)
			widths[i] = max(widths[i], columns(row[i].text))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			gap := strings.Repeat(" ", widths[i]-columns(c.text)+2)
			b.WriteString(a.colors.stdout.in(c.color, c.text) + gap)
		}
		fmt.Fprintln(a.out, strings.TrimRight(b.String(), " "))
	}
}

// field is one line of a show command: a name and its value.
type field struct {
	name string
	cell
}

// fields writes the non-empty fields of one thing, a line each. A value of several lines is
// indented below its name.
func (a *app) fields(all ...field) { a.fieldsOn(a.out, a.colors.stdout, all) }

// fieldsOn is fields for a chosen stream.
func (a *app) fieldsOn(w io.Writer, paint colorizer, all []field) {
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
