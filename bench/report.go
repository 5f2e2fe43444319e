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

// Report is what a run found, as bench.json holds it. docs/reference/figures.md describes every field.
type Report struct {
	Version     int               `json:"version"` // of this form; 1
	Machine     Machine           `json:"machine"`
	Figures     map[string]Figure `json:"figures"`
	Goals       []Goal            `json:"goals"`
	NotMeasured map[string]string `json:"not_measured"` // a figure, and why

	order []string // of the figures, as they came
}

// Figure is the fields of one figure, each with its unit in its name. n is how many measurements stand behind it.
type Figure map[string]float64

// Goal is what a field of a figure is held against. Exactly one of AtLeast and AtMost is set.
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
	if below := r.Figures[over][field]; below > 0 {
		r.set(figure, name, r.Figures[figure][field]/below)
	}
}

func (r *Report) atMost(figure, field string, limit float64) {
	value := r.Figures[figure][field]
	r.Goals = append(r.Goals, Goal{Figure: figure, Field: field, Value: value, AtMost: &limit, Met: value <= limit})
}

func (r *Report) atLeast(figure, field string, limit float64) {
	value := r.Figures[figure][field]
	r.Goals = append(r.Goals, Goal{Figure: figure, Field: field, Value: value, AtLeast: &limit, Met: value >= limit})
}

// missing notes a figure that could not be measured here.
func (r *Report) missing(figure string, why error) { r.NotMeasured[figure] = why.Error() }

// print writes the table: a line a field, and the goal beside the field that it is about.
func (r *Report) print(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tFIELD\tVALUE\tGOAL\t\tN")
	for _, name := range r.order {
		figure := r.Figures[name]
		for _, field := range slices.Sorted(maps.Keys(figure)) {
			if field == "n" {
				continue
			}
			goal, verdict := r.verdict(name, field)
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.0f\n", name, field, short(figure[field]), goal, verdict, figure["n"])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.NotMeasured)) {
		fmt.Fprintf(t, "%s\tnot measured: %s\t\t\t\t\n", name, r.NotMeasured[name])
	}
	return t.Flush()
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

// short writes a number with as many digits as are worth reading.
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

// saveLines appends the figures in the form of Go's own benchmarks, one line a figure, so that benchstat compares the
// files of several runs.
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

// Machine is where a run was made. Two runs can be compared when all of it agrees.
type Machine struct {
	Cores       int    `json:"cores"`
	Go          string `json:"go"`
	System      string `json:"system"`
	FileSystem  string `json:"file_system"`
	SQLite      string `json:"sqlite"`
	JournalMode string `json:"journal_mode"`
	Synchronous string `json:"synchronous"`
	Quick       bool   `json:"quick"`
}

// String is the first line of the table.
func (m Machine) String() string {
	s := fmt.Sprintf("%d cores, %s, %s, %s, SQLite %s, journal %s, synchronous %s",
		m.Cores, m.System, m.FileSystem, m.Go, m.SQLite, m.JournalMode, m.Synchronous)
	if m.Quick {
		s += ", quick: the numbers mean nothing"
	}
	return s
}

// machine asks the system and a database that was opened as the floor's is.
func (l *lab) machine(ctx context.Context) (Machine, error) {
	m := Machine{
		Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		FileSystem: fileSystem(l.root), Quick: l.quick,
	}
	f, err := l.floor(ctx)
	if err != nil {
		return m, err
	}
	defer f.close()
	var level int
	for query, into := range map[string]any{askVersion: &m.SQLite, askJournalMode: &m.JournalMode, askSynchronous: &level} {
		if err := f.conn.QueryRowContext(ctx, query).Scan(into); err != nil {
			return m, fmt.Errorf("ask the database: %w", err)
		}
	}
	m.Synchronous = fmt.Sprint(level)
	if level == 2 {
		m.Synchronous = "FULL"
	}
	return m, nil
}
