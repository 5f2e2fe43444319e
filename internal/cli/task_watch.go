package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

const (
	// watchEvery is how often a watched task is read, and so how often it is drawn at most.
	watchEvery = 100 * time.Millisecond
	// barChars is the length of a progress bar.
	barChars = 20
	// lineBytes is how much of the end of a log is read for its last line.
	lineBytes = 4 << 10
)

type taskWatch struct {
	Task       string `arg:"" help:"Id, unique id prefix, or title."`
	ExitStatus bool   `help:"Exit with 8 unless the task succeeds."`
	Output     string `short:"o" help:"Output format: text, or json with one line per change." placeholder:"FORMAT" enum:"text,json,jsonl" default:"text"`
}

// Run shows a task until it has ended. It polls, so that it does not matter which process answers.
func (c *taskWatch) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		w := &watcher{a: a, eng: eng, jsonl: c.Output != "text", live: a.movesCursor && c.Output == "text"}
		last, err := w.follow(ctx, t.ID)
		if err != nil || !c.ExitStatus || last.State == perdure.TaskSucceeded {
			return err
		}
		return &userError{code: exitFailed,
			message: fmt.Sprintf("%s has ended: %s%s", last.ID, last.State, because(taskError(last))), hint: taskText{a}.todo(last)}
	})
}

// watcher draws one task.
type watcher struct {
	a        *app
	eng      Engine
	jsonl    bool
	live     bool // the terminal can move the cursor, so that the view is drawn over the previous one
	pace     progressRate
	lastLine string // last printed line, without values that change with time only
	drawn    string // current content of the terminal, with the cursor at its beginning

	cost   string    // last known cost
	costAt time.Time // when
}

// follow draws until the task has ended, and returns its final state.
func (w *watcher) follow(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	defer func() { w.leave(ctx.Err() != nil) }()
	var last perdure.Task
	err := w.a.follow(ctx, watchEvery, func() (bool, error) {
		t, err := w.runOnce(ctx, id)
		if err == nil {
			last = t
		} else {
			w.leave(false) // the error message belongs below it
		}
		return t.State.Terminal(), err
	})
	return last, err
}

// runOnce reads the task and draws changes.
func (w *watcher) runOnce(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	t, err := w.eng.Tasks().Get(ctx, id)
	if err != nil {
		return t, fmt.Errorf("read task %s: %w", id, err)
	}
	log, err := lastLine(ctx, w.eng.Tasks(), id)
	if err != nil {
		return t, err
	}
	now := time.Now()
	w.pace.observe(t, now)
	w.readCost(ctx, t, now)
	return t, w.draw(t, log, now)
}

// readCost reads the cost of a subagent task, at most once a second and at its end. No other kind
// of task has a cost. After an error the last value stays.
func (w *watcher) readCost(ctx context.Context, t perdure.Task, now time.Time) {
	child := t.Links.ChildSession
	if child == "" || w.jsonl || now.Sub(w.costAt) < progressInterval && !t.State.Terminal() {
		return
	}
	w.costAt = now
	if report, err := w.eng.Budgets().Costs(ctx, engine.CostQuery{Group: "session", Session: child}); err == nil {
		w.cost = "cost " + cost(report.Total)
	}
}

// draw writes a line for each change; on a terminal it redraws a few lines instead.
func (w *watcher) draw(t perdure.Task, log string, now time.Time) error {
	a := w.a
	log = a.oneLine(log, 2*cellChars)
	news := fmt.Sprint(t.Attempt, t.State, t.Narration, t.StateDetail, t.Progress.String(), log, w.cost)
	v := w.view(t, now)
	if w.live {
		return w.redraw(v, log)
	}
	if news == w.lastLine {
		return nil
	}
	w.lastLine = news
	if w.jsonl {
		return a.json(t, "")
	}
	line := joinNonEmpty(v.id, v.tool, v.state, v.far, v.what, w.cost)
	if log != "" {
		line += "  | " + log
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// redraw draws over the current content of the terminal. The most important values come first,
// since long lines are cut off, not wrapped. The cursor stays at the beginning, which is still
// correct after the terminal is resized and has reflowed all lines.
func (w *watcher) redraw(v taskView, log string) error {
	lines := []string{joinNonEmpty(v.state, v.tool, v.id)}
	if second := joinNonEmpty(v.far, w.cost, v.what); second != "" {
		lines = append(lines, second)
	}
	if log != "" {
		lines = append(lines, "  "+w.a.colors.stdout.in(dim, log))
	}
	view := strings.Join(lines, "\n")
	if view == w.drawn {
		return nil
	}
	text := fitView(view)
	if w.drawn != "" {
		text = "\x1b[J" + text
	}
	if up := len(lines) - 1; up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	w.drawn = view
	_, err := io.WriteString(w.a.out, text+"\r")
	return err
}

// fitView disables line wrapping for a view.
func fitView(view string) string { return "\x1b[?7l" + view + "\x1b[?7h" }

// leave moves the cursor below the view. With again it redraws the view first, because an echoed
// key may have changed it.
func (w *watcher) leave(again bool) {
	switch {
	case w.drawn == "":
		return
	case again:
		fmt.Fprintln(w.a.out, "\r\x1b[J"+fitView(w.drawn))
	default:
		fmt.Fprint(w.a.out, strings.Repeat("\n", strings.Count(w.drawn, "\n")+1))
	}
	w.drawn = ""
}

// taskView holds the parts of a watched task, ready to be printed.
type taskView struct{ id, tool, state, far, what string }

// view formats a task.
func (w *watcher) view(t perdure.Task, now time.Time) taskView {
	sign, c := stateMark(t.State)
	what := cmp.Or(t.Narration, detailOf(t))
	if t.State == perdure.TaskAwaitingInput && t.InputRequest != nil {
		what = t.InputRequest.Prompt
	}
	far := strings.TrimSpace(t.Progress.String() + " " + w.pace.line(t, now))
	if t.State.Terminal() {
		what, far = cmp.Or(t.Narration, t.Summary), runTime(t)
	}
	return taskView{
		id: w.a.oneLine(string(t.ID), cellChars), tool: w.a.oneLine(t.Tool, cellChars),
		state: w.a.colors.stdout.in(c, sign+" "+w.a.oneLine(string(t.State), cellChars)),
		far:   joinNonEmpty(bar(t), w.a.oneLine(far, cellChars)), what: w.a.oneLine(what, cellChars),
	}
}

// joinNonEmpty joins the parts that are not empty.
func joinNonEmpty(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "  ")
}

// runTime says how long an ended task took.
func runTime(t perdure.Task) string {
	if t.StartedAt.IsZero() || t.FinishedAt.IsZero() {
		return ""
	}
	return "after " + span(t.FinishedAt.Sub(t.StartedAt))
}

// bar draws the progress; it is empty where the progress is not known.
func bar(t perdure.Task) string {
	p := t.Progress
	if p == nil || p.Current == nil || p.Total == nil || *p.Total <= 0 || t.State.Terminal() {
		return ""
	}
	part := min(max(*p.Current / *p.Total, 0), 1)
	full := int(part * barChars)
	return strings.Repeat("█", full) + strings.Repeat("░", barChars-full) + fmt.Sprintf(" %d %%", int(part*100))
}

// progressRate measures the speed of work, from the first progress that was seen of an attempt;
// where only one was seen, from the start of the attempt.
type progressRate struct {
	attempt int
	first   float64
	since   time.Time // zero: no progress was seen yet
	last    float64
	at      time.Time // time of last
}

// observe records the current progress.
func (p *progressRate) observe(t perdure.Task, now time.Time) {
	if t.Progress == nil || t.Progress.Current == nil {
		return
	}
	current := *t.Progress.Current
	if p.since.IsZero() || t.Attempt != p.attempt || current < p.last {
		*p = progressRate{attempt: t.Attempt, first: current, since: now, last: current, at: now}
	}
	if current != p.last {
		p.last, p.at = current, now
	}
}

// rate returns the progress per second; zero: not known.
func (p *progressRate) rate(t perdure.Task) float64 {
	gained, took := p.last-p.first, p.at.Sub(p.since)
	if gained <= 0 && p.attempt <= 1 && !t.StartedAt.IsZero() {
		gained, took = p.last, p.at.Sub(t.StartedAt)
	}
	if gained <= 0 || took <= 0 {
		return 0
	}
	return gained / took.Seconds()
}

// line formats the rate and the remaining time. It is empty while nothing is known.
func (p *progressRate) line(t perdure.Task, now time.Time) string {
	rate := p.rate(t)
	if rate == 0 || !t.State.Live() {
		return ""
	}
	text := fmt.Sprintf("%.3g/s", rate)
	if t.Progress == nil || t.Progress.Total == nil {
		return text
	}
	left := (*t.Progress.Total-p.last)/rate - now.Sub(p.at).Seconds()
	const limit = 365 * 24 * time.Hour // a longer estimate is not meaningful
	if left > limit.Seconds() {
		return text
	}
	return text + ", " + span(time.Duration(left*float64(time.Second))) + " left"
}

// lastLine returns the last line of a log that is not blank.
func lastLine(ctx context.Context, eng engine.Tasks, id perdure.TaskID) (string, error) {
	log, err := eng.Log(ctx, id, -lineBytes, lineBytes)
	if err != nil {
		return "", fmt.Errorf("read the log of %s: %w", id, err)
	}
	var text []byte
	for _, chunk := range log.Chunks {
		text = append(text, chunk.Bytes...)
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) { // the rest of a split character
		text = text[1:]
	}
	lines := bytes.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := len(lines) - 1; i >= 0; i-- {
		if line := bytes.TrimSpace(lines[i]); len(line) > 0 {
			return string(line), nil
		}
	}
	return "", nil
}
