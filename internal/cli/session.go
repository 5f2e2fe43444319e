package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

type sessionCommand struct {
	List sessionList `cmd:"" aliases:"ls" help:"List sessions, newest first; --since selects those that changed since then."`
	Show sessionShow `cmd:"" help:"Show a session: status, last messages and running tasks."`
	Send sessionSend `cmd:"" help:"Send a message to a session. It is stored when the command returns."`
	New  sessionNew  `cmd:"" help:"Create a session without sending a message."`
	Tail eventTail   `cmd:"" help:"Follow the events of a session (same as event tail)."`

	Label     sessionLabel     `cmd:"" help:"Set or remove labels of a session."`
	Rename    sessionRename    `cmd:"" help:"Change the title of a session."`
	Interrupt sessionInterrupt `cmd:"" help:"End the running turn. Background tasks continue."`
	Pause     sessionPause     `cmd:"" help:"Pause a session: running work ends normally, and nothing new starts until it is resumed."`
	Resume    sessionResume    `cmd:"" help:"Resume a session that was paused by a user or a budget."`

	Move sessionMove `cmd:"" help:"Move a session whose files are at another home to the home of this server, without its files."`

	Fork   sessionFork   `cmd:"" help:"Create a session from the history of another one, without repeating any effect."`
	Export sessionExport `cmd:"" help:"Export a session with all its data as JSON lines. The output is confidential."`
	Import sessionImport `cmd:"" help:"Import an exported session."`
	Delete sessionDelete `cmd:"" aliases:"rm" help:"Delete a session permanently, with its subagents and all their data."`
}

type sessionList struct {
	listFlags
	State string   `help:"Only sessions in this state: started, active, idle, waiting_for_tool_results or paused." placeholder:"STATE" enum:",started,active,idle,waiting_for_tool_results,paused" default:""`
	Text  string   `help:"Only sessions whose title contains each word of this text, in upper or lower case." placeholder:"TEXT"`
	Label []string `help:"Only sessions with this label: KEY or KEY=VALUE. Repeatable; all must match." placeholder:"LABEL" sep:"none"`
}

// sessions describes how sessions are listed.
func sessions(now clock) outputList[engine.Session] {
	return outputList[engine.Session]{
		noun: "sessions",
		head: []string{"SESSION", "STATUS", "OPEN", "UNKNOWN", "EVENTS", "UPDATED", "TITLE"},
		name: func(s engine.Session) string { return string(s.ID) },
		row: func(s engine.Session) []cell {
			unknown := cell{text: fmt.Sprint(s.Unknown)}
			if s.Unknown > 0 {
				unknown.color = red
			}
			return []cell{
				{string(s.ID), bold}, {text: string(s.Status)}, {text: fmt.Sprint(s.OpenTasks)}, unknown,
				{text: fmt.Sprint(s.LastSeq)}, {text: ago(s.UpdatedAt, now)}, {text: s.Title},
			}
		},
		wide: func(s engine.Session) []field {
			return []field{{"AGENT", cell{text: s.Agent.Name}}, {"LABELS", cell{text: labelLine(s.Labels)}},
				{"PARENT", cell{text: string(s.Parent)}}, {"CREATED", cell{text: ago(s.CreatedAt, now)}}}
		},
	}
}

// Run lists sessions.
func (c *sessionList) Run(ctx context.Context, a *app) error {
	terms, err := termsOf(c.Label)
	if err != nil {
		return err
	}
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Sessions().ListWhere(ctx,
			engine.SessionFilter{Labels: terms, Status: perdure.SessionStatus(c.State), Title: perdure.TitleFilter(c.Text), Limit: c.asked()})
		if err != nil {
			return fmt.Errorf("list sessions: %w", err)
		}
		if all, err = within(c.listFlags, a.now().Time, all, func(s engine.Session) time.Time { return s.UpdatedAt }); err != nil {
			return err
		}
		err = sessions(a.now()).print(ctx, a, c.outputFlags, all)
		if err == nil && c.choice().IsTable() && slices.ContainsFunc(all, unfinishedSessions) && unattended(ctx, eng) {
			a.printNoServer()
		}
		return err
	})
}

type sessionShow struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	outputFlags
	Messages int `help:"Number of last messages to show; 0 for all." default:"20"`
}

// Run shows one session.
func (c *sessionShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		fold, err := foldSession(ctx, eng, s.ID)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{string(s.ID), s, func() {
			c.tell(a, s, fold)
			if unfinishedSessions(s) && unattended(ctx, eng) {
				a.printNoServer()
			}
		}})
	})
}

// tell prints the session on a terminal.
func (c *sessionShow) tell(a *app, s engine.Session, fold *perdure.Session) {
	now := a.now()
	a.fields(
		field{"session", cell{string(s.ID), bold}},
		field{"title", cell{text: s.Title}},
		field{"labels", cell{text: labelLine(s.Labels)}},
		field{"status", cell{text: string(s.Status)}},
		field{"paused", cell{text: pauseLine(fold), color: yellow}},
		field{"turn", cell{text: turnLine(s.Turn, now)}},
		field{"subagent of", cell{text: string(s.Parent)}},
		field{"agent", cell{text: s.Agent.Name}},
		field{"model", cell{text: fold.Agent.Model}},
		field{"home", cell{text: homeLine(s.Home, now), color: waitColor(s.Home)}},
		field{"workspace", cell{text: fold.Agent.Metadata[WorkspaceKey]}},
		field{"forked from", cell{text: string(s.Forked)}},
		field{"events", cell{text: fmt.Sprint(s.LastSeq)}},
		field{"open tasks", cell{text: fmt.Sprint(s.OpenTasks)}},
		field{"unknown", cell{text: sessionText{a}.unknownWork(s, fold), color: red}},
		field{"needs you", cell{text: sessionText{a}.printNeedsYou(fold), color: yellow}},
		field{"tokens", cell{text: fmt.Sprintf("%d in, %d out", fold.Usage.InputTokens, fold.Usage.OutputTokens)}},
		field{"created", cell{text: moment(s.CreatedAt, now)}},
		field{"updated", cell{text: moment(s.UpdatedAt, now)}},
	)
	c.transcript(a, fold)
	if open := fold.OpenTasks(); len(open) > 0 {
		fmt.Fprintln(a.out)
		rows := [][]cell{}
		for _, t := range open {
			rows = append(rows, tasks(now).row(t))
		}
		a.table(tasks(now).head, rows)
	}
}

// turnLine describes the current turn. It is empty when the session is idle.
func turnLine(t *engine.SessionTurn, now clock) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%s, reason step %d, %s, started %s", t.ID, t.Step, t.Phase, moment(t.StartedAt, now))
}

// unknownWork lists the commands that resolve unknown outcomes. It is empty when there are none.
func (a sessionText) unknownWork(s engine.Session, fold *perdure.Session) string {
	if s.Unknown == 0 {
		return ""
	}
	var lines []string
	for id := range fold.UnknownCalls {
		lines = append(lines, taskText{a.app}.resolveCallLine(perdure.CallKey{Session: s.ID, Call: id}))
	}
	for _, t := range fold.Tasks {
		if t.State == perdure.TaskUnknown {
			lines = append(lines, taskText{a.app}.resolveLine(t.ID))
		}
	}
	slices.Sort(lines)
	return strings.Join(append([]string{fmt.Sprint(s.Unknown)}, lines...), "\n")
}

// printNeedsYou lists the commands that answer open approvals and questions. It is empty when there
// are none.
func (a sessionText) printNeedsYou(fold *perdure.Session) string {
	var lines []string
	for _, p := range fold.Approvals {
		lines = append(lines, program+" approve "+a.storeFlags()+string(p.ID)+"  ("+inLine(p.Tool)+")")
	}
	for _, t := range fold.Tasks {
		if t.State == perdure.TaskAwaitingInput && t.InputRequest != nil && t.InputRequest.Kind != questionOfApproval {
			lines = append(lines, taskText{a.app}.inputLine(t)+"  ("+inLine(t.InputRequest.Prompt)+")")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// transcript prints the last messages, one line each.
func (c *sessionShow) transcript(a *app, fold *perdure.Session) {
	messages := append(fold.Transcript[:len(fold.Transcript):len(fold.Transcript)], fold.Queue...)
	if len(messages) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	if c.Messages > 0 && len(messages) > c.Messages {
		a.message("%s not shown; use --messages 0 to show all", count(len(messages)-c.Messages, "message"))
		messages = messages[len(messages)-c.Messages:]
	}
	for _, m := range messages {
		fmt.Fprintln(a.out, a.colors.stdout.in(dim, fmt.Sprintf("%-12s", m.Role))+"  "+a.oneLine(summaryOf(m), 200))
	}
}

// summaryOf summarizes a message on one line.
func summaryOf(m perdure.Message) string {
	var parts []string
	for _, p := range m.Parts {
		switch {
		case p.Text != "":
			parts = append(parts, p.Text)
		case p.Call != nil:
			parts = append(parts, "→ "+p.Call.Name+" "+clip(redact.Document(p.Call.Arguments), cellChars))
		case p.Result != nil && p.Result.IsError():
			parts = append(parts, "error: "+p.Result.Error)
		case p.Result != nil:
			parts = append(parts, p.Result.Brief())
		case p.Image != nil:
			parts = append(parts, "["+p.Image.MediaType+"]")
		case p.ImageFile != nil:
			parts = append(parts, "["+string(p.ImageFile.ID)+"]")
		}
	}
	return strings.Join(parts, "  ")
}

// moment writes a time for a show command: the absolute time, and how long ago it was.
func moment(t time.Time, now clock) string {
	if t.IsZero() {
		return ""
	}
	if at := now.stamp(t); at != "" {
		return at
	}
	when := ago(t, now)
	if ahead := t.Sub(now.Time); ahead > time.Second { // a smaller difference is clock skew of another machine
		when = "in " + span(ahead)
	}
	return t.Format(time.RFC3339) + "  (" + when + ")"
}

type sessionFork struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	At      int64  `help:"Fork after the event with this sequence number; 0 for the last event." placeholder:"SEQ"`
	Effects string `help:"How to handle new effects: ask (each needs an approval) or dry-run (none happens)." enum:"ask,dry-run" default:"ask"`
	Title   string `help:"Title of the fork. Default: derived from the original session." placeholder:"TEXT"`
	actFlags
}

// Run forks a session.
func (c *sessionFork) Run(ctx context.Context, a *app) error {
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		at := c.At
		at = cmp.Or(at, s.LastSeq)
		if c.DryRun {
			a.message("would fork %s after event %d of %d: %s", s.ID, at, s.LastSeq, a.oneLine(s.Title, cellChars))
			return nil
		}
		f, err := eng.Sessions().Fork(ctx, s.ID, engine.Fork{At: c.At, Effects: strings.ReplaceAll(c.Effects, "-", "_"), Title: c.Title})
		if err != nil {
			return err
		}
		a.message("%s is a fork of %s after event %d; no earlier effect is repeated", f.ID, s.ID, at)
		if folder := workspaceOf(ctx, eng, f.ID); folder != "" {
			a.message("both sessions use the folder %s, which was not copied", a.oneLine(folder, 200))
		}
		a.message("continue it with: %s run %s--session %s PROMPT", program, a.storeFlags(), f.ID)
		return c.show(ctx, a, outputObject{string(f.ID), f, func() { sessionText{a}.forkSummary(f) }})
	})
}

// forkSummary prints the most important fields of a session.
func (a sessionText) forkSummary(s engine.Session) {
	a.fields(
		field{"session", cell{string(s.ID), bold}},
		field{"title", cell{text: s.Title}},
		field{"labels", cell{text: labelLine(s.Labels)}},
		field{"status", cell{text: string(s.Status)}},
		field{"forked from", cell{text: string(s.Forked)}},
		field{"events", cell{text: fmt.Sprint(s.LastSeq)}},
	)
}

// workspaceOf returns the host folder that a session works in; empty: none, or unknown.
func workspaceOf(ctx context.Context, eng engine.Journal, id perdure.SessionID) string {
	first, err := eng.Events(ctx, id, 0, 1)
	if err != nil || len(first) == 0 {
		return ""
	}
	created, _ := first[0].Fact.(perdure.SessionCreated)
	return created.Agent.Metadata[WorkspaceKey]
}

type sessionExport struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	To      string `help:"Write to this new file, readable by you only. Default: stdout." placeholder:"FILE" type:"path"`
}

// Run writes an export. An incomplete file is removed.
func (c *sessionExport) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		if c.To == "" {
			var out io.Writer = a.out
			if a.Terminal.Stdout && !a.flags.Raw {
				safe := &printableWriter{w: a.out, clean: printableJSON}
				defer safe.Close()
				out = safe
			}
			export := &exportHeadWriter{to: out, tell: sessionText{a}.leftOut}
			return errors.Join(eng.Sessions().Export(ctx, s.ID, export), export.flush())
		}
		file, err := createLocal(a, c.To, false, "choose another file with --to")
		if err != nil {
			return err
		}
		out := &exportHeadWriter{to: file, tell: sessionText{a}.leftOut}
		err = errors.Join(eng.Sessions().Export(ctx, s.ID, out), out.flush())
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, os.Remove(c.To))
		}
		a.message("exported %s to %s, with %s; keep the file confidential", s.ID, c.To, dataScope(out.head))
		return nil
	})
}

type sessionImport struct {
	File     string `arg:"" help:"Exported file; - reads stdin."`
	TakeOver bool   `help:"Continue unfinished work here, as after a crash. Use it only if the original session no longer exists."`
	DryRun   bool   `help:"Print what would be imported, from the first line of the file."`
	outputFlags
}

// Run imports an export, completely or not at all.
func (c *sessionImport) Run(ctx context.Context, a *app) error {
	in := a.stdin
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return usageError("cannot read the export: "+err.Error(),
				"create one with: perdure session export SESSION --to FILE")
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	if c.DryRun {
		return c.preview(a, in)
	}
	head, in := peekHead(in)
	sessionText{a}.leftOut(head)
	return a.with(ctx, writesAccess(false), func(eng Engine) error {
		s, err := eng.Sessions().Import(ctx, in, engine.Import{TakeOver: c.TakeOver})
		switch {
		case errors.Is(err, perdure.Conflict) && !c.TakeOver:
			return &userError{err: err, message: err.Error(),
				hint: "if the original session no longer exists, --take-over continues its unfinished work here; an existing session is never overwritten"}
		case errors.Is(err, perdure.Invalid), errors.Is(err, perdure.Limit):
			return &userError{err: err, message: err.Error(), hint: "nothing was imported; create the export again"}
		case err != nil:
			return err
		}
		a.message("imported %s, with %s", s.ID, dataScope(head))
		return c.show(ctx, a, outputObject{string(s.ID), s, func() { sessionText{a}.forkSummary(s) }})
	})
}

type sessionDelete struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Yes     bool   `short:"y" help:"Do not ask for confirmation."`
	DryRun  bool   `help:"Print what would be deleted."`
	outputFlags
}

// Run shows what would be deleted, asks for confirmation, and deletes it.
func (c *sessionDelete) Run(ctx context.Context, a *app) error {
	return actFlags{c.DryRun, c.outputFlags}.onSession(ctx, a, c.Session, deletedOutput{}, func(eng Engine, s engine.Session) error {
		what, err := sessionText{a}.subagentsOf(ctx, eng, s)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.message("would delete %s", what)
			return nil
		}
		if !c.Yes && !a.Terminal.Stdin {
			return &userError{
				code: exitApproval, message: "confirmation is needed, but there is no terminal to ask; nothing was deleted",
				hint: "confirm with --yes: " + program + " session delete " + a.storeFlags() + string(s.ID) + " --yes",
			}
		}
		if err := a.confirmName(ctx, c.Yes, "delete "+what+" permanently?", lastDigits(string(s.ID))); err != nil {
			return err
		}
		err = eng.Sessions().Delete(ctx, s.ID)
		if errors.Is(err, perdure.Conflict) {
			return &userError{err: err, message: err.Error(),
				hint: "nothing was deleted; " + program + " session show " + a.storeFlags() + string(s.ID) +
					"  shows the running work; end it with task cancel"}
		}
		if err != nil {
			return err
		}
		a.message("deleted %s with all its data", s.ID)
		return c.showForPrograms(ctx, a, string(s.ID), deletedOutput{string(s.ID), true})
	})
}

// subagentsOf describes on one line what is deleted together with a session.
func (a sessionText) subagentsOf(ctx context.Context, eng Engine, s engine.Session) (string, error) {
	all, err := eng.Sessions().List(ctx, 0)
	agents, unknown := 0, s.Unknown
	for _, other := range all {
		if other.Root == s.ID && other.ID != s.ID {
			agents++
			unknown += other.Unknown
		}
	}
	what := fmt.Sprintf("%s (%s) with %s", s.ID, a.oneLine(s.Title, cellChars), count(int(s.LastSeq), "event"))
	if agents > 0 {
		what += " and the sessions of " + count(agents, "subagent")
	}
	if unknown > 0 {
		what += ", " + count(unknown, "outcome") + " still unknown"
	}
	return what, err
}

// preview describes an export from its first line.
func (c *sessionImport) preview(a *app, in io.Reader) error {
	head, _ := peekHead(in)
	if head.Session == "" {
		return usageError("this is not an export of a session", "create one with: perdure session export SESSION --to FILE")
	}
	state := "idle"
	if !head.AtRest {
		state = "running, so that --take-over is required"
	}
	a.message("would import %s, which was %s when it was exported", a.oneLine(head.Session, cellChars), state)
	sessionText{a}.leftOut(head)
	return nil
}

// foldSession reads a session's journal and folds it.
func foldSession(ctx context.Context, eng engine.Journal, id perdure.SessionID) (*perdure.Session, error) {
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("read the journal of %s: %w", id, err)
	}
	fold := perdure.NewSession(id)
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			return nil, fmt.Errorf("fold the journal of %s: %w", id, err)
		}
	}
	return fold, nil
}
