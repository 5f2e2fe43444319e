package cli

import (
	"bytes"
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
	// watchEvery is how often a watched task is read, and so how often it is drawn at most (C5).
	watchEvery = 100 * time.Millisecond
	// barChars is the length of a bar.
	barChars = 20
	// lineBytes is how much of a log's end is read for its last line.
	lineBytes = 4 << 10
)

type taskWatch struct {
	Task       string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	ExitStatus bool   `help:"Exit with 8 unless it succeeds."`
	Output     string `short:"o" help:"How to print it: text, or json: a line for the task at every change." placeholder:"FORM" enum:"text,json,jsonl" default:"text"`
}

// Run shows a task until it has ended. It is read again and again, so that it does not matter who answers.
func (c *taskWatch) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		w := &watcher{a: a, eng: eng, jsonl: c.Output != "text", live: a.moves && c.Output == "text"}
		last, err := w.follow(ctx, t.ID)
		if err != nil || !c.ExitStatus || last.State == perdure.TaskSucceeded {
			return err
		}
		return &fault{code: exitFailed, what: fmt.Sprintf("%s has ended: %s%s", last.ID, last.State, because(taskError(last))), todo: a.todo(last)}
	})
}

// watcher draws one task.
type watcher struct {
	a     *app
	eng   Engine
	jsonl bool
	live  bool // the cursor moves: a terminal that can draw over what stands there
	pace  pace
	said  string // what was printed last, without what only time changes
	drawn string // what stands on the terminal, with the cursor at its beginning

	cost   string    // as it was read last
	costAt time.Time // when
}

// follow draws until the task has ended, and returns it as it ended.
func (w *watcher) follow(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	defer func() { w.leave(ctx.Err() != nil) }()
	var last perdure.Task
	err := w.a.follow(ctx, watchEvery, func() (bool, error) {
		t, err := w.runOnce(ctx, id)
		if err == nil {
			last = t
		} else {
			w.leave(false) // what is said of it is to stand below
		}
		return t.State.Terminal(), err
	})
	return last, err
}

// runOnce reads the task and draws what is new.
func (w *watcher) runOnce(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	t, err := w.eng.Task(ctx, id)
	if err != nil {
		return t, fmt.Errorf("read task %s: %w", id, err)
	}
	log, err := lastLine(ctx, w.eng, id)
	if err != nil {
		return t, err
	}
	now := time.Now()
	w.pace.see(t, now)
	w.spent(ctx, t, now)
	return t, w.draw(t, log, now)
}

// spent reads what the agent of a task has cost, at most once a second and when it has ended: of other work nobody knows. What
// cannot be read stays as it was.
func (w *watcher) spent(ctx context.Context, t perdure.Task, now time.Time) {
	child := t.Links.ChildSession
	if child == "" || w.jsonl || now.Sub(w.costAt) < lookEvery && !t.State.Terminal() {
		return
	}
	w.costAt = now
	if report, err := w.eng.Costs(ctx, engine.CostQuery{Group: "session", Session: child}); err == nil {
		w.cost = "cost " + cost(report.Total)
	}
}

// draw writes one line at a change; on a terminal, a few lines over those that stand there.
func (w *watcher) draw(t perdure.Task, log string, now time.Time) error {
	a := w.a
	log = a.line(log, 2*cellChars)
	news := fmt.Sprint(t.Attempt, t.State, t.StateDetail, progress(t.Progress), log, w.cost)
	v := w.view(t, now)
	if w.live {
		return w.redraw(v, log)
	}
	if news == w.said {
		return nil
	}
	w.said = news
	if w.jsonl {
		return a.json(t, "")
	}
	line := joined(v.id, v.tool, v.state, v.far, v.what, w.cost)
	if log != "" {
		line += "  | " + log
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// redraw draws over what stands on the terminal: what matters most comes first, since a line that is too long is cut and not
// wrapped. The cursor stays at the beginning, where it is still when the terminal gets another size and wraps all lines anew.
func (w *watcher) redraw(v taskView, log string) error {
	lines := []string{joined(v.state, v.tool, v.id)}
	if second := joined(v.far, w.cost, v.what); second != "" {
		lines = append(lines, second)
	}
	if log != "" {
		lines = append(lines, "  "+w.a.paint.data.in(dim, log))
	}
	view := strings.Join(lines, "\n")
	if view == w.drawn {
		return nil
	}
	text := uncut(view)
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

// uncut keeps the lines of a view from being wrapped.
func uncut(view string) string { return "\x1b[?7l" + view + "\x1b[?7h" }

// leave lets what is drawn stand, and goes below it. A key may have been echoed into it, which again draws over.
func (w *watcher) leave(again bool) {
	switch {
	case w.drawn == "":
		return
	case again:
		fmt.Fprintln(w.a.out, "\r\x1b[J"+uncut(w.drawn))
	default:
		fmt.Fprint(w.a.out, strings.Repeat("\n", strings.Count(w.drawn, "\n")+1))
	}
	w.drawn = ""
}

// taskView is what people see of a watched task, ready to be printed.
type taskView struct{ id, tool, state, far, what string }

// view says how the task is.
func (w *watcher) view(t perdure.Task, now time.Time) taskView {
	sign, c := stateMark(t.State)
	what := t.StateDetail
	if t.State == perdure.TaskAwaitingInput && t.InputRequest != nil {
		what = t.InputRequest.Prompt
	}
	far := strings.TrimSpace(progress(t.Progress) + " " + w.pace.line(t, now))
	if t.State.Terminal() {
		what, far = t.Summary, ran(t)
	}
	return taskView{
		id: w.a.line(string(t.ID), cellChars), tool: w.a.line(t.Tool, cellChars), state: w.a.paint.data.in(c, sign+" "+w.a.line(string(t.State), cellChars)),
		far: joined(bar(t), w.a.line(far, cellChars)), what: w.a.line(what, cellChars),
	}
}

// joined puts what there is into a line.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "  ")
}

// ran says how long an ended task took.
func ran(t perdure.Task) string {
	if t.StartedAt.IsZero() || t.FinishedAt.IsZero() {
		return ""
	}
	return "after " + span(t.FinishedAt.Sub(t.StartedAt))
}

// bar draws how much is done; nothing where that is not known.
func bar(t perdure.Task) string {
	p := t.Progress
	if p == nil || p.Current == nil || p.Total == nil || *p.Total <= 0 || t.State.Terminal() {
		return ""
	}
	part := min(max(*p.Current / *p.Total, 0), 1)
	full := int(part * barChars)
	return strings.Repeat("█", full) + strings.Repeat("░", barChars-full) + fmt.Sprintf(" %d %%", int(part*100))
}

// pace measures how fast work goes on, from the first progress that was seen of an attempt; where there was only
// one, from the start of the attempt.
type pace struct {
	attempt int
	first   float64
	since   time.Time // zero: no progress was seen
	last    float64
	at      time.Time // when last came
}

// see takes a look at the progress.
func (p *pace) see(t perdure.Task, now time.Time) {
	if t.Progress == nil || t.Progress.Current == nil {
		return
	}
	current := *t.Progress.Current
	if p.since.IsZero() || t.Attempt != p.attempt || current < p.last {
		*p = pace{attempt: t.Attempt, first: current, since: now, last: current, at: now}
	}
	if current != p.last {
		p.last, p.at = current, now
	}
}

// rate is the progress of a second; zero: it is not known.
func (p *pace) rate(t perdure.Task) float64 {
	gained, took := p.last-p.first, p.at.Sub(p.since)
	if gained <= 0 && p.attempt <= 1 && !t.StartedAt.IsZero() {
		gained, took = p.last, p.at.Sub(t.StartedAt)
	}
	if gained <= 0 || took <= 0 {
		return 0
	}
	return gained / took.Seconds()
}

// line says the rate, and when the work is done if it goes on so. It is empty while nothing is known.
func (p *pace) line(t perdure.Task, now time.Time) string {
	rate := p.rate(t)
	if rate == 0 || !t.State.Live() {
		return ""
	}
	text := fmt.Sprintf("%.3g/s", rate)
	if t.Progress == nil || t.Progress.Total == nil {
		return text
	}
	left := (*t.Progress.Total-p.last)/rate - now.Sub(p.at).Seconds()
	const most = 365 * 24 * time.Hour // what is further away is not known
	if left > most.Seconds() {
		return text
	}
	return text + ", " + span(time.Duration(left*float64(time.Second))) + " left"
}

// lastLine returns the last line of a log that says something.
func lastLine(ctx context.Context, eng engine.Tasks, id perdure.TaskID) (string, error) {
	log, err := eng.TaskLog(ctx, id, -lineBytes, lineBytes)
	if err != nil {
		return "", fmt.Errorf("read the log of %s: %w", id, err)
	}
	var text []byte
	for _, chunk := range log.Chunks {
		text = append(text, chunk.Bytes...)
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) { // the end of a character that was cut
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
