package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is the result of a run, as in bench.json. docs/reference/figures.md describes every field.
type Report struct {
	Version     int               `json:"version"` // of this format; 1
	Machine     Machine           `json:"machine"`
	Figures     map[string]Figure `json:"figures"`
	Goals       []Goal            `json:"goals"`
	NotMeasured map[string]string `json:"not_measured"` // figures with reasons

	order  []string // of the figures, as they were added
	ending string   // suffix of the current figures: onPostgres, or empty for SQLite
}

// onPostgres is the suffix of figures that were measured with Postgres.
const onPostgres = "_postgres"

// Figure contains the fields of one figure, each with its unit in its name. n is the number of
// measurements.
type Figure map[string]float64

// Goal compares a field of a figure with a limit. Exactly one of AtLeast and AtMost is set.
type Goal struct {
	Figure  string   `json:"figure"`
	Field   string   `json:"field"`
	Value   float64  `json:"value"`
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
	Met     bool     `json:"met"`
}

func newReport(m Machine) *Report {
	return &Report{Version: 1, Machine: m, Figures: map[string]Figure{}, NotMeasured: map[string]string{}}
}

// set writes a field of a figure.
func (r *Report) set(figure, field string, value float64) {
	figure += r.ending
	if r.Figures[figure] == nil {
		r.Figures[figure] = Figure{}
		r.order = append(r.order, figure)
	}
	r.Figures[figure][field] = value
}

// latencies writes the size and the percentiles of a sample.
func (r *Report) latencies(figure string, s sample) {
	r.set(figure, "n", float64(len(s)))
	r.set(figure, "p50_us", micros(s.at(0.5)))
	r.set(figure, "p99_us", micros(s.at(0.99)))
}

// rates writes the median of the rates of several rounds.
func (r *Report) rates(figure, field string, rounds []float64) {
	r.set(figure, "n", float64(len(rounds)))
	r.set(figure, field, median(rounds))
}

// ratio divides a field of a figure by the same field of another one.
func (r *Report) ratio(figure, over, field, name string) {
	if below := r.value(over, field); below > 0 {
		r.set(figure, name, r.value(figure, field)/below)
	}
}

// value returns a field of a figure of the current store, or 0.
func (r *Report) value(figure, field string) float64 { return r.Figures[figure+r.ending][field] }

// goal is the limit of a field on each store; 0: none.
type goal struct{ sqlite, postgres float64 }

// limit returns the goal on the current store.
func (r *Report) limit(g goal) float64 {
	if r.ending == onPostgres {
		return g.postgres
	}
	return g.sqlite
}

func (r *Report) atMost(figure, field string, g goal) {
	if limit, value := r.limit(g), r.value(figure, field); limit != 0 {
		r.Goals = append(r.Goals,
			Goal{Figure: figure + r.ending, Field: field, Value: value, AtMost: &limit, Met: value <= limit})
	}
}

func (r *Report) atLeast(figure, field string, g goal) {
	if limit, value := r.limit(g), r.value(figure, field); limit != 0 {
		r.Goals = append(r.Goals,
			Goal{Figure: figure + r.ending, Field: field, Value: value, AtLeast: &limit, Met: value >= limit})
	}
}

// missing records a figure that could not be measured.
func (r *Report) missing(figure string, why error) { r.NotMeasured[figure+r.ending] = why.Error() }

// print writes the table: one line per field, with the values and goals of both stores.
func (r *Report) print(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tFIELD\tSQLITE\tGOAL\t\tN\tPOSTGRES\tGOAL\t\tN")
	for _, name := range r.bare() {
		fields := maps.Clone(r.Figures[name])
		if fields == nil {
			fields = Figure{}
		}
		maps.Copy(fields, r.Figures[name+onPostgres])
		delete(fields, "n")
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", name, field, r.cells(name, field), r.cells(name+onPostgres, field))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.NotMeasured)) {
		fmt.Fprintf(t, "%s\tnot measured: %s\t\t\t\t\t\t\t\t\n", name,
			strings.Join(strings.Fields(r.NotMeasured[name]), " "))
	}
	return t.Flush()
}

// bare returns the names of the figures without the suffix of the store, each once.
func (r *Report) bare() (names []string) {
	for _, name := range r.order {
		if name = strings.TrimSuffix(name, onPostgres); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// cells returns the cells of a field: value, goal, verdict and n, or nothing.
func (r *Report) cells(figure, field string) string {
	value, ok := r.Figures[figure][field]
	if !ok {
		return "\t\t\t"
	}
	goal, verdict := r.verdict(figure, field)
	return fmt.Sprintf("%s\t%s\t%s\t%.0f", short(value), goal, verdict, r.Figures[figure]["n"])
}

func (r *Report) verdict(figure, field string) (goal, verdict string) {
	for _, g := range r.Goals {
		if g.Figure != figure || g.Field != field {
			continue
		}
		verdict = "missed"
		if g.Met {
			verdict = "met"
		}
		if g.AtLeast != nil {
			return "≥ " + short(*g.AtLeast), verdict
		}
		return "≤ " + short(*g.AtMost), verdict
	}
	return "", ""
}

// short formats a number with a sensible number of digits.
func short(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 1000 || v <= -1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// save writes the report as JSON.
func (r *Report) save(path string) error {
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// saveLines appends the figures in the format of Go benchmarks, one line per figure, so that
// benchstat can compare the files of several runs.
func (r *Report) saveLines(path string) error {
	var b strings.Builder
	for _, name := range r.order {
		fmt.Fprintf(&b, "BenchmarkFigure/%s 1", name)
		for _, field := range slices.Sorted(maps.Keys(r.Figures[name])) {
			if field != "n" {
				fmt.Fprintf(&b, " %g %s", r.Figures[name][field], field)
			}
		}
		b.WriteByte('\n')
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the lines: %w", err)
	}
	if _, err := f.WriteString(b.String()); err != nil {
		f.Close()
		return fmt.Errorf("write the lines: %w", err)
	}
	return f.Close()
}

// Machine describes the machine of a run. Two runs are comparable if all fields are equal.
type Machine struct {
	Cores       int    `json:"cores"`
	Go          string `json:"go"`
	System      string `json:"system"`
	FileSystem  string `json:"file_system"`
	SQLite      string `json:"sqlite"`
	Postgres    string `json:"postgres,omitempty"` // empty: not measured
	JournalMode string `json:"journal_mode"`
	Synchronous string `json:"synchronous"`
	Quick       bool   `json:"quick"`
}

// String returns the first line of the table.
func (m Machine) String() string {
	s := fmt.Sprintf("%d cores, %s, %s, %s, SQLite %s, journal %s, synchronous %s",
		m.Cores, m.System, m.FileSystem, m.Go, m.SQLite, m.JournalMode, m.Synchronous)
	if m.Postgres != "" {
		s += ", PostgreSQL " + m.Postgres
	}
	if m.Quick {
		s += ", quick: the numbers mean nothing"
	}
	return s
}

// machine collects the data of the system, and of a database opened like that of the floor.
func (l *runner) machine(ctx context.Context) (Machine, error) {
	m := Machine{
		Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		FileSystem: fileSystem(l.root), Quick: l.quick,
	}
	dir, err := l.folder("floor")
	if err != nil {
		return m, err
	}
	f, err := openFloor(ctx, dir)
	if err != nil {
		return m, err
	}
	defer f.close()
	var level int
	for query, into := range map[string]any{askVersion: &m.SQLite, askJournalMode: &m.JournalMode,
		askSynchronous: &level} {
		if err := f.line.conn.QueryRowContext(ctx, query).Scan(into); err != nil {
			return m, fmt.Errorf("query the database: %w", err)
		}
	}
	m.Synchronous = fmt.Sprint(level)
	if level == 2 {
		m.Synchronous = "FULL"
	}
	return m, nil
}
