package cli

import (
	"context"
	"fmt"
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
}

type sessionList struct {
	output
	Limit int `help:"How many; 0: all." default:"0"`
}

// sessions is how sessions are listed.
func sessions(now time.Time) listing[engine.Session] {
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
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Sessions(ctx, max(c.Limit, 0))
		if err != nil {
			return fmt.Errorf("list sessions: %w", err)
		}
		return sessions(time.Now()).print(ctx, a, c.output, all)
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
		return c.show(ctx, a, shown{string(s.ID), s, func() { c.tell(a, s, fold) }})
	})
}

// tell prints the session for people.
func (c *sessionShow) tell(a *app, s engine.Session, fold *perdure.Session) {
	now := time.Now()
	a.fields(
		field{"session", cell{string(s.ID), bold}},
		field{"title", cell{text: s.Title}},
		field{"status", cell{text: string(s.Status)}},
		field{"model", cell{text: fold.Agent.Model}},
		field{"workspace", cell{text: fold.Agent.Metadata[WorkspaceKey]}},
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

// unknownWork names what waits for an operator's word. It is empty when nothing does.
func (a *app) unknownWork(s engine.Session, fold *perdure.Session) string {
	if s.Unknown == 0 {
		return ""
	}
	var lines []string
	for id := range fold.Unknown {
		lines = append(lines, a.resolveLine(perdure.CallKey{Session: s.ID, Call: id}.String()))
	}
	for _, t := range fold.Tasks {
		if t.State == perdure.TaskUnknown {
			lines = append(lines, a.resolveLine(string(t.ID)))
		}
	}
	slices.Sort(lines)
	return strings.Join(append([]string{fmt.Sprint(s.Unknown)}, lines...), "\n")
}

// needsYou lists the commands that answer what waits for a person. It is empty when nothing does.
func (a *app) needsYou(fold *perdure.Session) string {
	var lines []string
	for _, p := range fold.Approvals {
		lines = append(lines, program+" approve "+a.dirFlag()+string(p.ID)+"  ("+inLine(p.Tool)+")")
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
			parts = append(parts, perdure.Summarise(p.Result.Result))
		case p.Image != nil:
			parts = append(parts, "["+p.Image.MediaType+"]")
		}
	}
	return strings.Join(parts, "  ")
}

// moment writes a time for a show: the whole of it, and how long ago.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339) + "  (" + ago(t, now) + ")"
}

type sessionSend struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Text    string `arg:"" help:"What to say."`
	Wait    bool   `help:"Wait for the answer, as run does."`
	DryRun  bool   `help:"Only say what would be done."`
	Output  string `short:"o" help:"With --wait: text, or jsonl for the events." placeholder:"FORM" enum:"text,jsonl" default:"text"`
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
