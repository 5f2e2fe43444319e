package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

type sessionCommand struct {
	List sessionList `cmd:"" help:"List sessions, newest first."`
	Show sessionShow `cmd:"" help:"Show a session: where it stands, what was said, what still runs."`
	Send sessionSend `cmd:"" help:"Hand a message to a session. It is durable when the command returns."`
	New  sessionNew  `cmd:"" help:"Start a session in which nothing was said yet."`
	Tail eventTail   `cmd:"" help:"Print the events of a session as they come; the same as event tail."`

	Label     sessionLabel     `cmd:"" help:"Set labels, by which sessions are found, or remove them."`
	Interrupt sessionInterrupt `cmd:"" help:"End the turn that runs. What works in the background stays."`
	Pause     sessionPause     `cmd:"" help:"Have nothing new begin in a session until it is resumed. What has begun ends by itself, and what comes in waits."`
	Resume    sessionResume    `cmd:"" help:"Let a session go on that a person or a budget paused."`

	Fork   sessionFork   `cmd:"" help:"Start a session with what was said in another one, without doing anything again."`
	Export sessionExport `cmd:"" help:"Write a session with all that belongs to it as JSON lines. They are confidential."`
	Import sessionImport `cmd:"" help:"Take in a session that was exported."`
	Delete sessionDelete `cmd:"" help:"Delete a session for good, with its subagents and all that belongs to them."`
}

type sessionList struct {
	output
	State string   `help:"Only sessions that stand there: started, active, idle, waiting_for_tool_results or paused." placeholder:"STATE" enum:",started,active,idle,waiting_for_tool_results,paused" default:""`
	Label []string `help:"Only sessions with this label: KEY, or KEY=VALUE. Given several times, all must hold." placeholder:"LABEL" sep:"none"`
	Limit int      `help:"How many; 0: all." default:"0"`
}

// sessions is how sessions are listed.
func sessions(now clock) listing[engine.Session] {
	return listing[engine.Session]{
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
	}
}

// Run lists sessions.
func (c *sessionList) Run(ctx context.Context, a *app) error {
	terms, err := termsOf(c.Label)
	if err != nil {
		return err
	}
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.SessionsWhere(ctx, engine.SessionFilter{Labels: terms, Status: perdure.SessionStatus(c.State), Limit: max(c.Limit, 0)})
		if err != nil {
			return fmt.Errorf("list sessions: %w", err)
		}
		err = sessions(a.now()).print(ctx, a, c.output, all)
		if err == nil && c.choice().ForPeople() && slices.ContainsFunc(all, atWork) && unattended(ctx, eng) {
			a.sayWaits()
		}
		return err
	})
}

type sessionShow struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	output
	Messages int `help:"How many of the last messages; 0: all." default:"20"`
}

// Run shows one session.
func (c *sessionShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		fold, err := foldOf(ctx, eng, s.ID)
		if err != nil {
			return err
		}
		return c.show(ctx, a, shown{string(s.ID), s, func() {
			c.tell(a, s, fold)
			if atWork(s) && unattended(ctx, eng) {
				a.sayWaits()
			}
		}})
	})
}

// tell prints the session for people.
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
		field{"workspace", cell{text: fold.Agent.Metadata[WorkspaceKey]}},
		field{"forked from", cell{text: string(s.Forked)}},
		field{"events", cell{text: fmt.Sprint(s.LastSeq)}},
		field{"open tasks", cell{text: fmt.Sprint(s.OpenTasks)}},
		field{"unknown", cell{text: a.unknownWork(s, fold), color: red}},
		field{"needs you", cell{text: a.needsYou(fold), color: yellow}},
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

// turnLine says how far a turn is; it is empty at rest.
func turnLine(t *engine.SessionTurn, now clock) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%s, in reason step %d, %s, began %s", t.ID, t.Step, t.Phase, moment(t.StartedAt, now))
}

// unknownWork names what waits for an operator's word. It is empty when nothing does.
func (a *app) unknownWork(s engine.Session, fold *perdure.Session) string {
	if s.Unknown == 0 {
		return ""
	}
	var lines []string
	for id := range fold.Unknown {
		lines = append(lines, a.resolveCallLine(perdure.CallKey{Session: s.ID, Call: id}))
	}
	for _, t := range fold.Tasks {
		if t.State == perdure.TaskUnknown {
			lines = append(lines, a.resolveLine(t.ID))
		}
	}
	slices.Sort(lines)
	return strings.Join(append([]string{fmt.Sprint(s.Unknown)}, lines...), "\n")
}

// needsYou lists the commands that answer what waits for a person. It is empty when nothing does.
func (a *app) needsYou(fold *perdure.Session) string {
	var lines []string
	for _, p := range fold.Approvals {
		lines = append(lines, program+" approve "+a.place()+string(p.ID)+"  ("+inLine(p.Tool)+")")
	}
	for _, t := range fold.Tasks {
		if t.State == perdure.TaskAwaitingInput && t.InputRequest != nil && t.InputRequest.Kind != questionOfApproval {
			lines = append(lines, a.inputLine(t)+"  ("+inLine(t.InputRequest.Prompt)+")")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// transcript prints the last messages, a line each.
func (c *sessionShow) transcript(a *app, fold *perdure.Session) {
	messages := append(fold.Transcript[:len(fold.Transcript):len(fold.Transcript)], fold.Queue...)
	if len(messages) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	if c.Messages > 0 && len(messages) > c.Messages {
		a.say("%s before these: --messages 0 shows all", count(len(messages)-c.Messages, "message"))
		messages = messages[len(messages)-c.Messages:]
	}
	for _, m := range messages {
		fmt.Fprintln(a.out, a.paint.data.in(dim, fmt.Sprintf("%-12s", m.Role))+"  "+a.line(gist(m), 200))
	}
}

// gist says in a line what a message is.
func gist(m perdure.Message) string {
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

// moment writes a time for a show: the whole of it, and how long ago.
func moment(t time.Time, now clock) string {
	if t.IsZero() {
		return ""
	}
	if at := now.stamp(t); at != "" {
		return at
	}
	when := ago(t, now)
	if ahead := t.Sub(now.Time); ahead > time.Second { // less is another machine's clock
		when = "in " + span(ahead)
	}
	return t.Format(time.RFC3339) + "  (" + when + ")"
}

type sessionSend struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Text    string `arg:"" help:"What to say."`
	Wait    bool   `help:"Wait for the answer, as run does."`
	DryRun  bool   `help:"Only say what would be done."`
	Output  string `short:"o" help:"With --wait: text, or json: a line for each event." placeholder:"FORM" enum:"text,json,jsonl" default:"text"`
}

// Run hands over a message.
func (c *sessionSend) Run(ctx context.Context, a *app) error {
	if c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			s, err := a.session(ctx, eng, c.Session)
			if err == nil {
				a.say("would send %s to %s, which is %s: %s", count(len(c.Text), "byte"), s.ID, s.Status, a.line(s.Title, cellChars))
			}
			return err
		})
	}
	run := &runCommand{Prompt: c.Text, Session: c.Session, Output: c.Output, Bg: !c.Wait}
	return run.Run(ctx, a)
}

type sessionFork struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	At      int64  `help:"The last event that counts, by its number in event list; 0: the last one there is." placeholder:"SEQ"`
	Effects string `help:"What becomes of new effects: ask a person before each, or dry-run, in which none happens." enum:"ask,dry-run" default:"ask"`
	Title   string `help:"Of the fork; else it is called after the other session." placeholder:"TEXT"`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run forks a session, and says what the two share.
func (c *sessionFork) Run(ctx context.Context, a *app) error {
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		at := c.At
		if at == 0 {
			at = s.LastSeq
		}
		if c.DryRun {
			a.say("would fork %s as of event %d of %d: %s", s.ID, at, s.LastSeq, a.line(s.Title, cellChars))
			return nil
		}
		f, err := eng.Fork(ctx, s.ID, engine.Fork{At: c.At, Effects: strings.ReplaceAll(c.Effects, "-", "_"), Title: c.Title})
		if err != nil {
			return err
		}
		a.say("%s is a fork of %s as of event %d; what was done is not done again", f.ID, s.ID, at)
		if folder := workspaceOf(ctx, eng, f.ID); folder != "" {
			a.say("both work in the folder %s, which was not copied", a.line(folder, 200))
		}
		a.say("it goes on with: %s run %s--session %s PROMPT", program, a.place(), f.ID)
		return c.show(ctx, a, shown{string(f.ID), f, func() { a.brief(f) }})
	})
}

// brief prints the session for people, in a few lines.
func (a *app) brief(s engine.Session) {
	a.fields(
		field{"session", cell{string(s.ID), bold}},
		field{"title", cell{text: s.Title}},
		field{"labels", cell{text: labelLine(s.Labels)}},
		field{"status", cell{text: string(s.Status)}},
		field{"forked from", cell{text: string(s.Forked)}},
		field{"events", cell{text: fmt.Sprint(s.LastSeq)}},
	)
}

// workspaceOf is the folder of the host that a session works in; empty: none, or it cannot be told.
func workspaceOf(ctx context.Context, eng engine.Journals, id perdure.SessionID) string {
	first, err := eng.Events(ctx, id, 0, 1)
	if err != nil || len(first) == 0 {
		return ""
	}
	created, _ := first[0].Fact.(perdure.SessionCreated)
	return created.Agent.Metadata[WorkspaceKey]
}

type sessionExport struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	To      string `help:"The file to write, which must not be there yet; only you may read it. Else stdout." placeholder:"FILE" type:"path"`
}

// Run writes an export. A file that could not be written whole does not stay.
func (c *sessionExport) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		if c.To == "" {
			var out io.Writer = a.out
			if a.Terminal.Stdout && !a.flags.Raw {
				safe := &plainWriter{w: a.out, clean: plainJSON}
				defer safe.Close()
				out = safe
			}
			export := &headTeller{to: out, tell: a.leftOut}
			return errors.Join(eng.Export(ctx, s.ID, export), export.flush())
		}
		file, err := os.OpenFile(c.To, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return &fault{err: perdure.Conflict, what: c.To + " is there already, and stays as it is", todo: "name another file with --to"}
		}
		if err != nil {
			return fmt.Errorf("export %s: %w", s.ID, err)
		}
		out := &headTeller{to: file, tell: a.leftOut}
		err = errors.Join(eng.Export(ctx, s.ID, out), out.flush())
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, os.Remove(c.To))
		}
		a.say("%s is in %s, with %s; whoever has the file can read all of it", s.ID, c.To, allBut(out.head))
		return nil
	})
}

type sessionImport struct {
	File     string `arg:"" help:"The export; - reads stdin."`
	TakeOver bool   `help:"The session that was exported is gone for ever: work that was under way is taken up here, as after a crash."`
	DryRun   bool   `help:"Only say what would be taken in; the file's first line is believed."`
	output
}

// Run takes in an export, whole or not at all.
func (c *sessionImport) Run(ctx context.Context, a *app) error {
	in := a.stdin
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return misuse("the export cannot be read: "+err.Error(), "perdure session export SESSION --to FILE writes one")
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	if c.DryRun {
		return c.preview(a, in)
	}
	head, in := peekHead(in)
	a.leftOut(head)
	return a.with(ctx, writing(false), func(eng Engine) error {
		s, err := eng.Import(ctx, in, engine.Import{TakeOver: c.TakeOver})
		switch {
		case errors.Is(err, perdure.Conflict) && !c.TakeOver:
			return &fault{err: err, what: err.Error(), todo: "--take-over takes up what was under way, when the other copy is gone for ever; a session that is here already stays as it is"}
		case errors.Is(err, perdure.Invalid), errors.Is(err, perdure.Limit):
			return &fault{err: err, what: err.Error(), todo: "nothing was taken in; export it again"}
		case err != nil:
			return err
		}
		a.say("%s is here, with %s", s.ID, allBut(head))
		return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
	})
}

type sessionDelete struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Yes     bool   `short:"y" help:"Do not ask."`
	DryRun  bool   `help:"Only say what would go."`
	output
}

// Run shows what would go, asks, and deletes it.
func (c *sessionDelete) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		what, err := a.family(ctx, eng, s)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would delete %s", what)
			return nil
		}
		if !c.Yes && !a.Terminal.Stdin {
			return &fault{
				code: exitApproval, what: "this needs a yes, and there is no terminal to ask; nothing was deleted",
				todo: "--yes says it: " + program + " session delete " + a.place() + string(s.ID) + " --yes",
			}
		}
		if err := a.confirmName(ctx, c.Yes, "delete "+what+", for ever?", lastDigits(string(s.ID))); err != nil {
			return err
		}
		err = eng.DeleteSession(ctx, s.ID)
		if errors.Is(err, perdure.Conflict) {
			return &fault{err: err, what: err.Error(), todo: "nothing was deleted; " + program + " session show " + a.place() + string(s.ID) + "  says what is at work, task cancel ends it"}
		}
		if err != nil {
			return err
		}
		a.say("%s is gone, with all that belonged to it", s.ID)
		return c.quietly(ctx, a, string(s.ID), gone{string(s.ID), true})
	})
}

// family says in a line what goes with a session.
func (a *app) family(ctx context.Context, eng Engine, s engine.Session) (string, error) {
	all, err := eng.Sessions(ctx, 0)
	agents, unknown := 0, s.Unknown
	for _, other := range all {
		if other.Root == s.ID && other.ID != s.ID {
			agents++
			unknown += other.Unknown
		}
	}
	what := fmt.Sprintf("%s (%s) with %s", s.ID, a.line(s.Title, cellChars), count(int(s.LastSeq), "event"))
	if agents > 0 {
		what += " and the sessions of " + count(agents, "subagent")
	}
	if unknown > 0 {
		what += ", " + count(unknown, "outcome") + " that nobody knows among it"
	}
	return what, err
}

// preview says what the first line of an export says.
func (c *sessionImport) preview(a *app, in io.Reader) error {
	head, _ := peekHead(in)
	if head.Session == "" {
		return misuse("this is no export of a session", "perdure session export SESSION --to FILE writes one")
	}
	state := "at rest"
	if !head.AtRest {
		state = "at work, so that it takes --take-over"
	}
	a.say("would take in %s, which was %s when it was exported", a.line(head.Session, cellChars), state)
	a.leftOut(head)
	return nil
}

// foldOf reads a session's journal and folds it.
func foldOf(ctx context.Context, eng engine.Journals, id perdure.SessionID) (*perdure.Session, error) {
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
