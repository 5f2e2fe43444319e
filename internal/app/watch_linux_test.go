package app

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// wideWork writes lines that are wider than any terminal, until a file exists.
const wideWork = `i=0
until test -e go; do i=$((i+1)); echo "line $i of a log that is wider than the widest of the terminals of this test, to its very end: $i"; sleep 0.02; done
echo built`

// TestC05Terminal watches a task that reports a thousand times a second on terminals: state, bar,
// rate, time left and last line in a view that stays in place, updated at most ten times a second,
// across resizes; and piped, one line per change.
func TestC05Terminal(t *testing.T) {
	t.Parallel()
	h := newTerminalHome(t, wideWork)
	holder := h.start()
	id := strings.TrimSpace(h.says("task", "list", "-o", "name"))
	began := time.Now()
	busy := rewriter{data: h.file("data"), answer: func(path string, value any) any {
		if task, ok := value.(map[string]any); ok && path == "/v1/tasks/"+id && task["state"] == "running" {
			task["progress"] = map[string]any{"current": time.Since(began).Milliseconds(), "total": 3_600_000, "unit": "files\n\x1b[2J"}
		}
		return value
	}}.serve(t)
	watch := func(args ...string) *terminal {
		return onTerminal(t, h.env, "perdure", append([]string{"task", "watch", "--server", busy, id}, args...)...)
	}

	left := watch()
	left.shows("line ")
	left.press("\x03")
	left.ends(130)
	if state := h.says("task", "list", "-o", "json"); !strings.Contains(state, `"running"`) {
		t.Errorf("the task does not run on after Ctrl-C: %s", state)
	}

	piped := exec.CommandContext(t.Context(), "perdure", "task", "watch", id)
	var lines strings.Builder
	piped.Env, piped.Stdout = h.env, &lines
	if err := piped.Start(); err != nil {
		t.Fatal(err)
	}
	opened := time.Now()
	x := watch("--exit-status")
	cuts, reflows := &screen{t: t, columns: 80, wraps: true}, &screen{t: t, columns: 80, wraps: true, reflows: true}
	fed := 0
	feed := func(to int) {
		for _, s := range []*screen{cuts, reflows} {
			s.write(x.all.String()[fed:to])
		}
		fed = to
	}
	feedViews := func() {
		if end := strings.LastIndex(x.all.String(), "A\r"); end >= fed {
			feed(end + len("A\r"))
		}
	}
	for _, columns := range []int{80, 40, 20, 80} {
		feedViews()
		resize(t, x.keys, uint16(columns))
		cuts.resize(columns)
		reflows.resize(columns)
		for range 3 {
			x.shows("\x1b[J")
		}
	}
	feedViews()
	for _, part := range []string{"▸ running", "░ ", "files", "/s, ", " left", "line "} {
		if !strings.Contains(cuts.String(), part) {
			t.Errorf("the view has no %q on 80 columns:\n%s", part, cuts)
		}
	}
	if err := os.WriteFile(h.file("ws/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.ends(0)
	feed(x.all.Len())
	frames, most := strings.Count(x.all.String(), "\x1b[?7l"), int(time.Since(opened)/(100*time.Millisecond))+2
	if frames > most || frames < 10 {
		t.Errorf("drawn %d times, at most %d: %q", frames, most, x.all.String())
	}
	cuts.hasEnd("one that cuts")
	reflows.hasEnd("one that wraps anew")
	t.Logf("drawn %d times, at most %d", frames, most)

	if err := piped.Wait(); err != nil {
		t.Error(err)
	}
	lineAChange(t, lines.String())
	holder.leave()
}

// hasEnd checks that the screen shows the view of a succeeded task, and nothing else.
func (s *screen) hasEnd(name string) {
	s.t.Helper()
	got := strings.Split(s.String(), "\n")
	if s.wrapped > 0 || len(got) != 3 || !strings.HasPrefix(got[0], "✓ succeeded  bash  task_") || got[2] != "  built" {
		s.t.Errorf("on %s, %d lines were wrapped, and there stands:\n%s", name, s.wrapped, s)
	}
}

// lineAChange checks that piped output is one line per change.
func lineAChange(t *testing.T, piped string) {
	t.Helper()
	before := ""
	for line := range strings.Lines(piped) {
		if line == before || strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("piped: %q after %q", line, before)
		}
		before = line
	}
	if !strings.Contains(before, "✓ succeeded") || strings.Count(piped, "\n") < 3 {
		t.Errorf("piped: %q", piped)
	}
}
