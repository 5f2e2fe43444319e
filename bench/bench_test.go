package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/shell"
)

// TestMain also runs the supervisor of commands and the processes that the measurements start.
func TestMain(m *testing.M) {
	shell.Supervise()
	if role := os.Getenv(childRole); role != "" {
		os.Exit(exitCode(runChild(context.Background(), role, os.Stdout)))
	}
	goleak.VerifyTestMain(m)
}

// decoded reads the JSON of a run. It fails for fields that Report does not have.
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

// documented returns the figures and fields of the reference page: the table rows whose first two
// cells are code.
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
			// the fields of the SQLite figure
			if bare, ok := strings.CutSuffix(name[1], onPostgres); ok && len(fields) == 1 {
				fields = slices.Clone(found[bare])
			}
			slices.Sort(fields)
			found[name[1]] = fields
		}
	}
	return found
}

// checkGoals checks that every goal is about an existing field, and that its verdict follows from
// its numbers.
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

// checkLines checks the format of Go benchmarks: a name, a count, then values with their units.
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

// TestRefuses checks that bad flags are refused with a hint.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"-only nothing", "choose from disk, calls"},
		{"calls", "use flags"},
		{"-unknown", "not defined"},
		{"-dir /nowhere/at/all", "create a folder for the measurements"},
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

// TestPercentiles checks the nearest rank.
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

// TestMedian checks the middle value.
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

// TestOrders checks that the model makes the requested number of calls, in messages of the
// requested size.
func TestOrders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := openEngineRig(t.Context(), engineRigConfig{Dir: dir})
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

		if err := w.waitIdle(t.Context(), id, o); err != nil {
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

// TestWithoutServer checks that a missing server is reported in one line, and that everything else
// is measured. It is not parallel: it sets the folder for temporary files, in which the path of a
// socket would be too long.
func TestWithoutServer(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	path := filepath.Join(t.TempDir(), "bench.json")
	var table, progress bytes.Buffer

	err := measure(t.Context(), []string{"-quick", "-only", "disk,turn", "-json", path, "-dir", t.TempDir()}, &table, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}

	report := decoded(t, path)
	if why := report.NotMeasured["postgres"]; len(report.NotMeasured) != 1 || !strings.Contains(why, "TMPDIR") {
		t.Errorf("not measured: %v", report.NotMeasured)
	}
	if strings.Count(table.String(), "not measured") != 1 || report.Machine.Postgres != "" {
		t.Errorf("machine %+v, and the table:\n%s", report.Machine, table.String())
	}
	for _, name := range []string{"floor_commit", "one_tool_turn"} {
		if report.Figures[name] == nil || report.Figures[name+onPostgres] != nil {
			t.Errorf("%s: %v, and over Postgres %v", name, report.Figures[name], report.Figures[name+onPostgres])
		}
	}
}

// TestHeardOf counts the statements of a server: transactions of several interleaved processes and
// statements of several lines, without statements outside of transactions and without those of a
// watcher.
func TestHeardOf(t *testing.T) {
	t.Parallel()
	const log = "2026-01-02 03:04:05.678 UTC [11] LOG:  statement: BEGIN READ WRITE; clock\n" +
		"2026-01-02 03:04:05.678 UTC [12] LOG:  statement: BEGIN READ ONLY\n" +
		"2026-01-02 03:04:05.679 UTC [11] LOG:  execute stmtcache_1: INSERT a\n\tON CONFLICT\n" +
		"2026-01-02 03:04:05.679 UTC [11] DETAIL:  parameters: $1 = 'LOG:  statement: COMMIT'\n" +
		"2026-01-02 03:04:05.680 UTC [12] LOG:  execute stmtcache_2: read FROM event\n" +
		"2026-01-02 03:04:05.681 UTC [12] LOG:  statement: ROLLBACK\n" +
		"2026-01-02 03:04:05.682 UTC [12] LOG:  execute stmtcache_3: pg_notify\n" +
		"2026-01-02 03:04:05.682 UTC [11] LOG:  statement: COMMIT\n" +
		"2026-01-02 03:04:05.683 UTC [12] LOG:  statement: BEGIN READ ONLY\n" +
		"2026-01-02 03:04:05.684 UTC [12] LOG:  execute <unnamed>: read FROM task\n" +
		"2026-01-02 03:04:05.685 UTC [12] LOG:  statement: ROLLBACK\n" +
		"2026-01-02 03:04:05.686 UTC [11] LOG:  statement: BEGIN READ WRITE; clock\n"

	all := parseServerLog(log)

	if got, want := all.cost(), (cost{work: 2, views: 1, transactions: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !strings.Contains(all.String(), "\nINSERT a ON CONFLICT\nCOMMIT\n") {
		t.Errorf("listed:\n%s", all)
	}
}

// TestColumns checks that a field is compared with the goal of its store, with both stores on one
// line.
func TestColumns(t *testing.T) {
	t.Parallel()
	r := newReport(Machine{})
	for _, of := range []struct {
		ending string
		value  float64
	}{{"", 3}, {onPostgres, 7}} {
		r.ending = of.ending
		r.set("pace", "n", 5)
		r.set("pace", "of_ratio", of.value)
		r.atMost("pace", "of_ratio", goal{sqlite: 4, postgres: 6})
		r.atLeast("pace", "of_ratio", goal{sqlite: 1})
	}
	var table bytes.Buffer

	if err := r.print(&table); err != nil {
		t.Fatal(err)
	}

	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	if got, want := strings.Fields(lines[len(lines)-1]), strings.Fields("pace of_ratio 3 ≤ 4 met 5 7 ≤ 6 missed 5"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(r.Goals) != 3 { // the last goal does not exist for Postgres
		t.Errorf("%d goals: %+v", len(r.Goals), r.Goals)
	}
}
