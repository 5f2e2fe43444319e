package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/shell"
)

// TestMain is also the supervisor of commands, and the processes that the measurements start.
func TestMain(m *testing.M) {
	shell.Supervise()
	if role := os.Getenv(childRole); role != "" {
		os.Exit(exitCode(runChild(context.Background(), role, os.Stdout)))
	}
	goleak.VerifyTestMain(m)
}

// TestQuickRun keeps the program alive: every figure that the reference names is there with its fields, and is a number.
// It asserts no time.
func TestQuickRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bench.json")
	lines := filepath.Join(t.TempDir(), "lines.txt")
	var table, progress bytes.Buffer

	err := measure(t.Context(), []string{"-quick", "-json", path, "-lines", lines, "-dir", t.TempDir()}, &table, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}

	report := decoded(t, path)
	want := documented(t)
	for name, why := range report.NotMeasured {
		if runtime.GOOS != "linux" && name == "spawn_supervised" {
			delete(want, name) // commands outlive their runtime on Linux only
			continue
		}
		t.Errorf("%s was not measured: %s", name, why)
	}
	got := map[string][]string{}
	for name, figure := range report.Figures {
		got[name] = slices.Sorted(maps.Keys(figure))
		for field, value := range figure {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				t.Errorf("%s %s is %v", name, field, value)
			}
		}
		if figure["n"] < 1 {
			t.Errorf("%s has n %v", name, figure["n"])
		}
		if !strings.Contains(table.String(), name+" ") {
			t.Errorf("the table has no line %s", name)
		}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("figures, and those of docs/reference/figures.md:\n%s", diff)
	}
	checkGoals(t, report)
	checkLines(t, lines, len(report.Figures))
}

// decoded reads the JSON of a run and refuses fields that Report has not.
func decoded(t *testing.T, path string) Report {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	var report Report
	if err := dec.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if report.Version != 1 || !report.Machine.Quick || report.Machine.Synchronous != "FULL" || report.Machine.JournalMode != "wal" {
		t.Errorf("version %d, machine %+v", report.Version, report.Machine)
	}
	return report
}

// documented reads the figures and fields of the reference: the rows of its tables, whose first two cells are code.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "reference", "figures.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "## The disk and the floor")
	tables, _, _ = strings.Cut(tables, "## Goals")
	code := regexp.MustCompile("`([a-z0-9_]+)`")
	found := map[string][]string{}
	for _, line := range strings.Split(tables, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, name := range code.FindAllStringSubmatch(cells[1], -1) {
			fields := []string{"n"}
			for _, field := range code.FindAllStringSubmatch(cells[2], -1) {
				fields = append(fields, field[1])
			}
			slices.Sort(fields)
			found[name[1]] = fields
		}
	}
	return found
}

// checkGoals wants every goal to be about a field that is there, and its verdict to follow from its numbers.
func checkGoals(t *testing.T, report Report) {
	t.Helper()
	if len(report.Goals) == 0 {
		t.Error("there are no goals")
	}
	for _, g := range report.Goals {
		value, ok := report.Figures[g.Figure][g.Field]
		if !ok || value != g.Value || (g.AtLeast == nil) == (g.AtMost == nil) {
			t.Errorf("%+v", g)
			continue
		}
		if met := g.AtLeast != nil && value >= *g.AtLeast || g.AtMost != nil && value <= *g.AtMost; met != g.Met {
			t.Errorf("%+v: met is %t", g, met)
		}
	}
}

// checkLines wants the form of Go's benchmarks: a name, a count, then values with their units.
func checkLines(t *testing.T, path string, figures int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^BenchmarkFigure/[a-z0-9_]+ 1( [-+0-9.e]+ [a-z0-9_]+)+$`)
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, l := range all {
		if !line.MatchString(l) {
			t.Errorf("%q is no line of a benchmark", l)
		}
	}
	if len(all) != figures {
		t.Errorf("%d lines, want %d", len(all), figures)
	}
}

// TestRefuses wants bad flags to be told with what to do.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"-only nothing", "choose from disk, calls"},
		{"calls", "given by flags"},
		{"-unknown", "not defined"},
		{"-dir /nowhere/at/all", "make a folder to measure in"},
	} {
		var out bytes.Buffer

		err := measure(t.Context(), strings.Fields(c.args), &out, &out)

		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.want)
		}
		if strings.Contains(out.String(), "FIGURE") {
			t.Errorf("%s: printed a table", c.args)
		}
	}
}

// TestPercentiles takes the nearest rank.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	var hundred sample
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct {
		s    sample
		p    float64
		want time.Duration
	}{
		{nil, 0.5, 0}, {sample{7}, 0.99, 7}, {sample{3, 1, 2}, 0.5, 2}, {sample{2, 1}, 0.5, 1},
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
	} {
		if got := c.s.at(c.p); got != c.want {
			t.Errorf("%v at %v: got %d, want %d", c.s, c.p, got, c.want)
		}
	}
}

// TestMedian takes the middle.
func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.of); got != c.want {
			t.Errorf("%v: got %v, want %v", c.of, got, c.want)
		}
	}
}

// TestOrders wants the model to make as many calls as were asked for, in messages of the size that was asked for.
func TestOrders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := openWorld(t.Context(), worldConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, o := range []order{{"noop", 5, 2}, {"noop", 3, 32}, {}} {
		id, err := w.session(t.Context(), agent(false))
		if err != nil {
			t.Fatal(err)
		}

		if err := w.rested(t.Context(), id, o); err != nil {
			t.Fatal(err)
		}

		if n, err := w.settled(t.Context(), id); err != nil || n != o.all {
			t.Errorf("%+v: %d settled, %v", o, n, err)
		}
		events, err := w.Events(t.Context(), id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		answers := 0
		for _, e := range events {
			if _, ok := e.Fact.(perdure.OutputCompleted); ok {
				answers++
			}
		}
		want := 1
		if o.step > 0 {
			want += (o.all + o.step - 1) / o.step
		}
		if answers != want {
			t.Errorf("%+v: %d answers, want %d", o, answers, want)
		}
	}
}
