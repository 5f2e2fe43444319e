package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// psGroup says what is to be done about a thing: by a person, or by nobody.
type psGroup string

// The groups of ps, in their order (C19).
const (
	psNeedsYou  psGroup = "needs_you"
	psWorking   psGroup = "working"
	psScheduled psGroup = "scheduled"
	psDone      psGroup = "done"
	psFailed    psGroup = "failed"
)

// psGroups returns the groups with what people call them.
func psGroups() []struct {
	group psGroup
	title string
} {
	return []struct {
		group psGroup
		title string
	}{{psNeedsYou, "Needs you"}, {psWorking, "Working"}, {psScheduled, "Scheduled"}, {psDone, "Done"}, {psFailed, "Failed or unknown"}}
}

// psRow is one thing that ps shows.
type psRow struct {
	Group   psGroup           `json:"group"`
	Kind    string            `json:"kind"` // task, approval, call, session or schedule
	ID      string            `json:"id"`
	Session perdure.SessionID `json:"session_id"`
	State   string            `json:"state"`
	Title   string            `json:"title"`
	At      time.Time         `json:"at,omitzero"`  // when it began, ended or comes, by the group
	Do      string            `json:"do,omitempty"` // the command that goes on with it

	about string // for people
}

type psCommand struct {
	Session string `help:"Only what belongs to this session." placeholder:"ID"`
	All     bool   `short:"a" help:"Also what ended longer ago than --since."`
	Since   string `help:"How long ago something may have ended, for instance 30m." placeholder:"DURATION" default:"24h"`
	Prompt  bool   `help:"One line for the prompt of a shell, or nothing: 3 running · 1 needs you · 1 failed."`
	output
}

// Run shows what goes on, by what is to be done about it.
func (c *psCommand) Run(ctx context.Context, a *app) error {
	now := a.now()
	since, err := whenTyped("since", c.Since, now.Time)
	if err != nil {
		return err
	}
	if c.All {
		since = time.Time{}
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
		rows, err := a.going(ctx, eng, of, since)
		if err != nil {
			return err
		}
		if c.Prompt {
			if line := psPrompt(rows); line != "" {
				fmt.Fprintln(a.out, line)
			}
			return nil
		}
		list := listing[psRow]{
			noun: "work: " + program + " run --model MODEL PROMPT begins some",
			name: func(r psRow) string { return r.ID },
			tell: func(rows []psRow) { a.tellGroups(rows, now) },
		}
		return list.print(ctx, a, c.output, rows)
	})
}

// going collects what ps shows, group by group.
func (a *app) going(ctx context.Context, eng Engine, of perdure.SessionID, since time.Time) ([]psRow, error) {
	var all []psRow
	asked, err := eng.Approvals(ctx, engine.ApprovalFilter{Session: of, State: perdure.ApprovalOpen})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	for _, p := range asked {
		all = append(all, psRow{psNeedsYou, "approval", string(p.ID), p.Session, string(p.State), p.Tool, p.RequestedAt, program + " approve " + a.place() + string(p.ID), ""})
	}
	tasks, err := eng.Tasks(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	for _, t := range tasks {
		if row := a.psTask(t); row.Group != psDone && row.Group != psFailed || !t.FinishedAt.Before(since) || t.State == perdure.TaskUnknown {
			all = append(all, row)
		}
	}
	sessions, err := eng.Sessions(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, s := range sessions {
		if of != "" && s.ID != of {
			continue
		}
		if s.Status == perdure.SessionActive {
			all = append(all, psRow{psWorking, "session", string(s.ID), s.ID, string(s.Status), s.Title, s.UpdatedAt, program + " event tail " + a.place() + string(s.ID), "a turn"})
		}
		if s.Status == perdure.SessionPaused {
			all = append(all, psRow{psNeedsYou, "session", string(s.ID), s.ID, string(s.Status), s.Title, s.UpdatedAt, a.resumeLine(s.ID), "paused"})
		}
		if s.Unknown == 0 {
			continue
		}
		calls, err := a.unknownCalls(ctx, eng, s.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, calls...)
	}
	schedules, err := eng.Schedules(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	for _, s := range schedules {
		if s.Enabled {
			all = append(all, psRow{psScheduled, "schedule", string(s.ID), s.Session, stateOf(s), s.Title, s.NextAt, program + " schedule show " + a.place() + string(s.ID), when(s)})
		}
	}
	return inGroups(all), nil
}

// inGroups puts rows in the order of their groups.
func inGroups(all []psRow) []psRow {
	var rows []psRow
	for _, g := range psGroups() {
		for _, row := range all {
			if row.Group == g.group {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// psTask says where a task belongs.
func (a *app) psTask(t perdure.Task) psRow {
	row := psRow{psWorking, "task", string(t.ID), t.Session, string(t.State), titleOf(t), t.CreatedAt, program + " attach " + a.place() + string(t.ID), t.Tool}
	if p := progress(t.Progress); p != "" {
		row.about += "  " + p
	}
	switch t.State {
	case perdure.TaskAwaitingInput:
		row.Group = psNeedsYou
		if t.InputRequest != nil {
			row.Do, row.about = a.inputLine(t), t.InputRequest.Prompt
		}
	case perdure.TaskUnknown:
		row.Group, row.At, row.Do = psFailed, t.FinishedAt, a.resolveLine(string(t.ID))
	case perdure.TaskFailed, perdure.TaskCanceled:
		row.Group, row.At, row.Do, row.about = psFailed, t.FinishedAt, program+" log "+a.place()+string(t.ID), t.Tool+because(taskError(t))
	case perdure.TaskSucceeded:
		row.Group, row.At, row.Do, row.about = psDone, t.FinishedAt, program+" task show "+a.place()+string(t.ID), t.Summary
	}
	return row
}

// unknownCalls are the foreground calls of a session whose outcome nobody knows.
func (a *app) unknownCalls(ctx context.Context, eng engine.Calls, id perdure.SessionID) (rows []psRow, err error) {
	calls, err := eng.Calls(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("list calls of %s: %w", id, err)
	}
	for _, c := range calls {
		if c.State == perdure.CallUnknown && c.Task == "" {
			rows = append(rows, psRow{psFailed, "call", c.Key.String(), id, string(c.State), c.Tool, c.ClaimedAt, a.resolveLine(c.Key.String()), ""})
		}
	}
	return rows, nil
}

// tellGroups prints the groups that are not empty.
func (a *app) tellGroups(rows []psRow, now clock) {
	for _, g := range psGroups() {
		var cells [][]cell
		for _, row := range rows {
			if row.Group == g.group {
				cells = append(cells, row.cells(now))
			}
		}
		if len(cells) == 0 {
			continue
		}
		if a.Terminal.Stdout {
			fit(cells)
		}
		fmt.Fprintln(a.out, a.paint.data.in(psColor(g.group), fmt.Sprintf("%s (%d)", g.title, len(cells))))
		a.rows(cells)
	}
	for _, row := range rows {
		if row.Group == psNeedsYou || row.State == string(perdure.TaskUnknown) {
			a.say("  %s", a.line(row.Do, 300))
		}
	}
}

// psColumns is how wide ps is on a terminal: the narrowest that people have, so that no row of it wraps.
const psColumns = 80

// fit clips the last cell of each row, which is the one that is only about the others, to what they leave of a terminal.
func fit(rows [][]cell) {
	last := len(rows[0]) - 1
	left := psColumns
	for i := range last {
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
			row[last].text = narrowed(row[last].text, left)
		}
	}
}

// psIDChars is how much of an id ps shows: 80 columns hold it with what matters more, and it is unique for all but the unlucky.
const psIDChars = 17

func (r psRow) cells(now clock) []cell {
	id := r.ID
	if r.Kind != "call" {
		id = strings.TrimSuffix(clip(id, psIDChars+1), "…")
	}
	age := ""
	switch {
	case r.At.IsZero():
	case r.Group == psScheduled:
		age = now.until(r.At)
	default:
		age = ago(r.At, now)
	}
	return []cell{{text: ""}, {id, bold}, {r.State, psColor(r.Group)}, {text: age}, {text: narrowed(inLine(r.Title), 24)}, {r.about, dim}}
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

// psPrompt is the line for the prompt of a shell; empty: there is nothing to tell.
func psPrompt(rows []psRow) string {
	counts := map[psGroup]int{}
	unknown := 0
	for _, row := range rows {
		if row.State == string(perdure.TaskUnknown) {
			unknown++
			continue
		}
		if row.Group == psFailed && row.State != string(perdure.TaskFailed) {
			continue // somebody canceled it, and knows
		}
		counts[row.Group]++
	}
	var parts []string
	for _, part := range []struct {
		n    int
		says string
	}{{counts[psWorking], "running"}, {counts[psNeedsYou], "needs you"}, {unknown, "unknown"}, {counts[psFailed], "failed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.says))
		}
	}
	return strings.Join(parts, " · ")
}
