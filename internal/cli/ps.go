package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// psGroup groups work by what a user has to do about it.
type psGroup string

// The groups of ps, in their order.
const (
	psNeedsYou  psGroup = "needs_you"
	psWorking   psGroup = "working"
	psScheduled psGroup = "scheduled"
	psDone      psGroup = "done"
	psFailed    psGroup = "failed"
)

// psGroups returns the groups with their titles.
func psGroups() []struct {
	group psGroup
	title string
} {
	return []struct {
		group psGroup
		title string
	}{{psNeedsYou, "Needs you"}, {psWorking, "Working"}, {psScheduled, "Scheduled"}, {psDone, "Done"},
		{psFailed, "Failed or unknown"}}
}

// psWaiting is the state of what waits for a server or for its home.
const psWaiting = "waiting"

// psRow is one row of ps.
type psRow struct {
	Group   psGroup           `json:"group"`
	Kind    string            `json:"kind"` // task, approval, call, session or schedule
	ID      string            `json:"id"`
	Session perdure.SessionID `json:"session_id"`
	State   string            `json:"state"`
	Title   string            `json:"title"`
	// when it began, ended or fires next, depending on the group
	At      time.Time `json:"at,omitzero"`
	Command string    `json:"do,omitempty"`               // the next command for it
	Waits   bool      `json:"waits_for_server,omitempty"` // waits until a server runs

	about string // for the table only
}

type psCommand struct {
	Session string `help:"Only work of this session." placeholder:"ID"`
	All     bool   `short:"a" help:"Also show work that ended before --since."`
	Since   string `help:"Show work that ended within this time, for instance 30m." placeholder:"DURATION" default:"24h"`
	Watch   bool   `short:"w" help:"Repeat until Ctrl-C: redraw on a terminal, else print each change."`
	Prompt  bool   `help:"Print one line for a shell prompt, or nothing: 3 running · 1 needs you · 1 failed."`
	outputFlags
}

// psEvery is how often ps --watch reads the work, and so how often it is drawn at most.
const psEvery = time.Second

// check refuses invalid flags before anything is opened.
func (c *psCommand) check() error {
	if c.Watch && (c.Prompt || !c.choice().IsTable()) {
		return usageError("--watch draws a table", "remove --watch, or --prompt and the flags of the output format")
	}
	return c.outputFlags.check()
}

// Run shows current work, grouped by what a user has to do about it.
func (c *psCommand) Run(ctx context.Context, a *app) error {
	if _, err := parseTime("since", c.Since, a.now().Time); err != nil {
		return err
	}
	return a.read(ctx, func(eng Engine) error {
		var of perdure.SessionID
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			of = s.ID
		}
		if c.Watch {
			return c.watch(ctx, a, eng, of)
		}
		rows, err := c.rows(ctx, a, eng, of)
		if err != nil {
			return err
		}
		if c.Prompt {
			if line := psPrompt(rows); line != "" {
				fmt.Fprintln(a.out, line)
			}
			return nil
		}
		list := outputList[psRow]{
			noun: "work", none: "nothing is running; start with: " + program + " run " + a.storeFlags() + "--model MODEL PROMPT",
			name: func(r psRow) string { return r.ID },
			tell: func(rows []psRow) {
				workList{a}.printGroups(rows, c.isWide())
				for _, line := range (workList{a}).commands(rows) {
					a.message("  %s", line)
				}
				if slices.ContainsFunc(rows, func(r psRow) bool { return r.Waits }) {
					a.printNoServer()
				}
			},
		}
		return list.print(ctx, a, c.outputFlags, rows)
	})
}

// rows reads the current work.
func (c *psCommand) rows(ctx context.Context, a *app, eng Engine, of perdure.SessionID) ([]psRow, error) {
	since, err := parseTime("since", c.Since, a.now().Time)
	if err != nil {
		return nil, err
	}
	if c.All {
		since = time.Time{}
	}
	rows, err := workList{a}.collectWork(ctx, eng, of, since)
	if err != nil {
		return nil, err
	}
	if unattended(ctx, eng) {
		for i := range rows {
			rows[i].Waits = rows[i].Group == psWorking || rows[i].Group == psScheduled
		}
	}
	return rows, nil
}

// watch shows the work until ctx ends. On a terminal it redraws the screen; elsewhere it prints the
// work again when more than its age has changed.
func (c *psCommand) watch(ctx context.Context, a *app, eng Engine, of perdure.SessionID) error {
	shown := ""
	return a.follow(ctx, psEvery, func() (bool, error) {
		rows, err := c.rows(ctx, a, eng, of)
		if err != nil {
			return false, err
		}
		view := a.captured(func() { workList{a}.printGroups(rows, c.isWide()) })
		for _, line := range (workList{a}).commands(rows) {
			view += "  " + line + "\n"
		}
		if view == "" {
			view = "nothing is running\n"
		}
		news := view
		if !a.movesCursor {
			news = fmt.Sprintf("%q", psNews(rows))
		}
		if news == shown {
			return false, nil
		}
		switch {
		case a.movesCursor:
			view = clearScreen + view
		case shown != "":
			view = "\n" + view
		}
		shown = news
		_, err = io.WriteString(a.out, view)
		return false, err
	})
}

// clearScreen empties a terminal and moves its cursor to the top.
const clearScreen = "\x1b[H\x1b[2J"

// psNews returns what distinguishes two states of the work, without times.
func psNews(rows []psRow) (news []string) {
	for _, r := range rows {
		news = append(news, fmt.Sprint(r.Group, r.ID, r.State, r.Title, r.Waits, r.about))
	}
	return news
}

// captured returns what print writes to stdout.
func (a *app) captured(print func()) string {
	var text strings.Builder
	out := a.out
	a.out = &stdoutWriter{w: &text}
	defer func() { a.out = out }()
	print()
	return text.String()
}

// collectWork collects the rows of ps.
func (a workList) collectWork(ctx context.Context, eng Engine, of perdure.SessionID, since time.Time) ([]psRow, error) {
	var all []psRow
	asked, err := eng.Approvals().List(ctx, engine.ApprovalFilter{Session: of, State: perdure.ApprovalOpen})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	for _, p := range asked {
		all = append(all, psRow{psNeedsYou, "approval", string(p.ID), p.Session, string(p.State), p.Tool, p.RequestedAt,
			program + " approve " + a.storeFlags() + string(p.ID), false, ""})
	}
	tasks, err := eng.Tasks().List(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	for _, t := range tasks {
		ofTask := func(p perdure.Approval) bool { return of == "" || p.Task == t.ID }
		if t.AwaitsApproval() && slices.ContainsFunc(asked, ofTask) {
			continue // the approval has a row
		}
		if row := a.psTask(t); row.Group != psDone && row.Group != psFailed || !t.FinishedAt.Before(since) ||
			t.State == perdure.TaskUnknown {
			all = append(all, row)
		}
	}
	sessions, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, s := range sessions {
		if of != "" && s.ID != of {
			continue
		}
		if s.Home != nil && !s.Home.WaitsSince.IsZero() {
			all = append(all, psRow{psWorking, "session", string(s.ID), s.ID, psWaiting, s.Title, s.Home.WaitsSince,
				moveLine(a.app, s.ID), false, "waits for " + homeName(*s.Home)})
		} else if s.Status == perdure.SessionActive {
			all = append(all, psRow{psWorking, "session", string(s.ID), s.ID, string(s.Status), s.Title, s.UpdatedAt,
				program + " event tail " + a.storeFlags() + string(s.ID), false, "a turn"})
		}
		if s.Status == perdure.SessionPaused {
			all = append(all, psRow{psNeedsYou, "session", string(s.ID), s.ID, string(s.Status), s.Title, s.UpdatedAt,
				sessionText{a.app}.resumeLine(s.ID), false, "paused"})
		}
		if s.Unknown == 0 {
			continue
		}
		calls, err := a.unknownCalls(ctx, eng.Calls(), s.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, calls...)
	}
	schedules, err := eng.Schedules().List(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	for _, s := range schedules {
		if s.Enabled {
			all = append(all, psRow{psScheduled, "schedule", string(s.ID), s.Session, stateOf(s), s.Title, s.NextAt,
				program + " schedule show " + a.storeFlags() + string(s.ID), false, when(s)})
		}
	}
	return byGroup(all), nil
}

// byGroup sorts rows by group, and within a group the newest first; schedules by their next fire.
func byGroup(all []psRow) []psRow {
	var rows []psRow
	for _, g := range psGroups() {
		var some []psRow
		for _, row := range all {
			if row.Group == g.group {
				some = append(some, row)
			}
		}
		if g.group == psScheduled {
			slices.SortStableFunc(some, func(one, other psRow) int { return one.At.Compare(other.At) })
		} else {
			some = newestFirst(some, func(r psRow) time.Time { return r.At })
		}
		rows = append(rows, some...)
	}
	return rows
}

// psTask returns the row of a task.
func (a workList) psTask(t perdure.Task) psRow {
	row := psRow{psWorking, "task", string(t.ID), t.Session, string(t.State), titleOf(t), t.CreatedAt,
		program + " attach " + a.storeFlags() + string(t.ID), false, t.Tool}
	if p := t.Progress.String(); p != "" {
		row.about += "  " + p
	}
	if t.WaitsForHome != "" {
		row.State, row.about = psWaiting, t.StateDetail
	}
	if t.Narration != "" && t.State.Live() {
		row.about += "  " + t.Narration
	}
	switch t.State {
	case perdure.TaskAwaitingInput:
		row.Group = psNeedsYou
		if t.InputRequest != nil {
			row.Command, row.about = taskText{a.app}.inputLine(t), t.InputRequest.Prompt
		}
	case perdure.TaskUnknown:
		row.Group, row.At, row.Command = psFailed, t.FinishedAt, taskText{a.app}.resolveLine(t.ID)
	case perdure.TaskFailed, perdure.TaskCanceled:
		row.Group, row.At, row.Command, row.about = psFailed, t.FinishedAt, program+" log "+a.storeFlags()+string(t.ID),
			t.Tool+because(taskError(t))
	case perdure.TaskSucceeded:
		row.Group, row.At, row.Command, row.about = psDone, t.FinishedAt, program+" task show "+a.storeFlags()+string(t.ID),
			t.Summary
	}
	return row
}

// unknownCalls returns the foreground calls of a session with an unknown outcome.
func (a workList) unknownCalls(ctx context.Context, eng engine.Calls, id perdure.SessionID) (rows []psRow, err error) {
	calls, err := eng.List(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("list calls of %s: %w", id, err)
	}
	for _, c := range calls {
		if c.State == perdure.CallUnknown && c.Task == "" {
			rows = append(rows, psRow{psFailed, "call", c.Key.String(), id, string(c.State), c.Tool, c.ClaimedAt,
				taskText{a.app}.resolveCallLine(c.Key), false, ""})
		}
	}
	return rows, nil
}

// printGroups prints the groups that are not empty.
func (a workList) printGroups(rows []psRow, wide bool) {
	now := a.now()
	shown := a.shownIDs(rows)
	waits := false
	for _, g := range psGroups() {
		var cells [][]cell
		for i, row := range rows {
			if row.Group == g.group {
				cells = append(cells, row.cells(shown[i], now))
				waits = waits || row.Waits
			}
		}
		if len(cells) == 0 {
			continue
		}
		if waits && g.group == psWorking {
			g.title = "Waiting for a server"
		}
		if a.Terminal.Stdout && !wide {
			fit(cells)
		}
		fmt.Fprintln(a.out, a.colors.stdout.in(psColor(g.group), fmt.Sprintf("%s (%d)", g.title, len(cells))))
		a.printTable(cells, wide)
	}
}

// commands returns the commands that continue work which waits for the user, or whose outcome is
// unknown.
func (a workList) commands(rows []psRow) (lines []string) {
	for _, row := range rows {
		if row.Group == psNeedsYou || row.State == string(perdure.TaskUnknown) {
			lines = append(lines, a.oneLine(row.Command, 300))
		}
	}
	return lines
}

// psColumns is the width of ps on a terminal. It is the narrowest common width, so that no row
// wraps.
const psColumns = 80

// minTitle is the minimum width of a title, even next to long ids.
const minTitle = 8

// fit clips the last two cells of each row, a title and a description, to the width that the other
// cells leave.
func fit(rows [][]cell) {
	last := len(rows[0]) - 1
	left := psColumns
	for i := range last {
		if i == last-1 {
			for _, row := range rows {
				row[i].text = truncateColumns(inLine(row[i].text), max(left-2, minTitle))
			}
		}
		width := 0
		for _, row := range rows {
			width = max(width, columns(clip(inLine(row[i].text), cellChars)))
		}
		left -= width + 2 // the gap
	}
	for _, row := range rows {
		if row[last].text = inLine(row[last].text); left < 2 {
			row[last].text = ""
		} else {
			row[last].text = truncateColumns(row[last].text, left)
		}
	}
}

// shownIDs returns the ids as they are printed: abbreviated on a terminal, complete otherwise.
func (a workList) shownIDs(rows []psRow) []string {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	if !a.Terminal.Stdout {
		return ids
	}
	return shortIDs(ids)
}

func (r psRow) cells(id string, now clock) []cell {
	state := r.State
	if r.Waits && r.Kind != "schedule" {
		state = psWaiting
	}
	age := ""
	switch {
	case r.At.IsZero():
	case r.Group == psScheduled:
		age = now.until(r.At)
	default:
		age = ago(r.At, now)
	}
	return []cell{{text: ""}, {id, bold}, {state, psColor(r.Group)}, {text: age}, {text: truncateColumns(inLine(r.Title), 24)},
		{r.about, dim}}
}

func psColor(g psGroup) color {
	switch g {
	case psNeedsYou:
		return yellow
	case psFailed:
		return red
	case psDone:
		return green
	}
	return bold
}

// psPrompt returns the line for a shell prompt; empty: there is nothing to report.
func psPrompt(rows []psRow) string {
	counts := map[psGroup]int{}
	unknown, waiting := 0, 0
	for _, row := range rows {
		if row.Waits && row.Group == psWorking {
			waiting++
			continue
		}
		if row.State == string(perdure.TaskUnknown) {
			unknown++
			continue
		}
		if row.Group == psFailed && row.State != string(perdure.TaskFailed) {
			continue // canceled by the user
		}
		counts[row.Group]++
	}
	var parts []string
	for _, part := range []struct {
		n    int
		says string
	}{{counts[psWorking], "running"}, {waiting, "waiting for a server"}, {counts[psNeedsYou], "needs you"},
		{unknown, "unknown"}, {counts[psFailed], "failed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.says))
		}
	}
	return strings.Join(parts, " · ")
}
