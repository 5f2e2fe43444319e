package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

type approvalCommand struct {
	List    approvalList    `cmd:"" help:"List the questions whether calls may run: the open ones, unless told otherwise."`
	Show    approvalShow    `cmd:"" help:"Show a question: what exactly would be approved."`
	Approve approvalApprove `cmd:"" help:"Let the call run, once, with exactly the arguments that are shown."`
	Deny    approvalDeny    `cmd:"" help:"Refuse the call. The agent is told so, and goes on without it."`
}

type approvalList struct {
	output
	Session string   `help:"Only those of this session." placeholder:"ID"`
	State   []string `help:"Only those in these states: open, approved, denied, expired, void. Not given: open." placeholder:"STATE" xor:"state"`
	All     bool     `help:"Those in every state." xor:"state"`
}

// approvals is how approvals are listed.
func approvals(now clock) listing[perdure.Approval] {
	return listing[perdure.Approval]{
		noun: "approvals",
		head: []string{"APPROVAL", "STATE", "TOOL", "CLASS", "AGE", "EXPIRES", "ARGUMENTS"},
		name: func(p perdure.Approval) string { return string(p.ID) },
		row: func(p perdure.Approval) []cell {
			return []cell{
				{string(p.ID), bold}, {string(p.State), approvalColor(p.State)}, {text: p.Tool}, {text: string(p.Class)},
				{text: now.age(p.RequestedAt)}, {text: expiry(p, now)}, {text: redact.Document(p.Args)},
			}
		},
	}
}

// Run lists approvals, in the order in which they were asked for.
func (c *approvalList) Run(ctx context.Context, a *app) error {
	wanted := []perdure.ApprovalState{perdure.ApprovalOpen}
	if len(c.State) > 0 {
		wanted = nil
	}
	for _, s := range c.State {
		if !perdure.ApprovalState(s).Valid() {
			return misuse(fmt.Sprintf("%q is no state of an approval", s), "open, approved, denied, expired and void are")
		}
		wanted = append(wanted, perdure.ApprovalState(s))
	}
	return a.read(ctx, func(eng Engine) error {
		var filter engine.ApprovalFilter
		if len(wanted) == 1 && !c.All {
			filter.State = wanted[0]
		}
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			filter.Session = s.ID
		}
		all, err := eng.Approvals(ctx, filter)
		if err != nil {
			return fmt.Errorf("list approvals: %w", err)
		}
		var chosen []perdure.Approval
		for _, p := range all {
			if c.All || slices.Contains(wanted, p.State) {
				if len(p.Args) > 0 {
					p.Args = redact.JSON(p.Args) // RD6
				}
				chosen = append(chosen, p)
			}
		}
		return approvals(a.now()).print(ctx, a, c.output, chosen)
	})
}

type approvalShow struct {
	Approval string `arg:"" help:"Its id, or a unique beginning of it."`
	output
}

// Run shows one approval.
func (c *approvalShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		p, err := a.approval(ctx, eng, c.Approval)
		if err != nil {
			return err
		}
		return c.show(ctx, a, shown{string(p.ID), p, func() {
			now := a.now()
			a.fields(append(a.asked(p, now),
				field{"note", cell{text: p.Note}},
				field{"run with", cell{text: a.exact(p.NewArgs)}},
				field{"what to do", cell{text: a.verdictLines(p)}},
			)...)
		}})
	})
}

// asked is all that a person should know before a verdict: what exactly runs, and why somebody has to be asked.
func (a *app) asked(p perdure.Approval, now clock) []field {
	return []field{
		{"approval", cell{string(p.ID), bold}},
		{"state", cell{became(p, now), approvalColor(p.State)}},
		{"tool", cell{text: p.Tool + " (" + classOf(p.Class) + ")"}},
		{"arguments", cell{text: a.exact(p.Args)}},
		{"digest", cell{text: p.ArgsHash}},
		{"permissions", cell{text: permissions(p.Permissions)}},
		{"reason", cell{text: askerSays(p.Why)}},
		{"summary", cell{text: askerSays(p.Summary)}},
		{"more", cell{text: metadata(p.Metadata)}},
		{"session", cell{text: string(p.Session)}},
		{"call", cell{text: string(p.Call)}},
		{"task", cell{text: string(p.Task)}},
		{"requested", cell{text: moment(p.RequestedAt, now)}},
		{"expires", cell{text: expiry(p, now)}},
	}
}

// exact writes arguments for a person who answers for them: nothing is left out, and what could hide or turn what is
// written is escaped, also where no terminal is (C18).
func (a *app) exact(args json.RawMessage) string {
	switch {
	case len(args) == 0:
		return ""
	case a.flags.Raw:
		return indented(args)
	}
	return string(plainJSON([]byte(indented(args))))
}

// classOf says what an effect class means for somebody who lets a call run.
func classOf(c perdure.EffectClass) string {
	switch c {
	case perdure.Pure:
		return "pure: it changes nothing"
	case perdure.Idempotent:
		return "idempotent: twice does what once does"
	case perdure.AtMostOnce:
		return "at_most_once: what it does may not be undone"
	}
	return string(c)
}

// permissions writes what a call wants to do, a line each. Who asks must not be able to write a line of its own.
func permissions(all []perdure.Permission) string {
	var lines []string
	for _, p := range all {
		line := inLine(p.Kind + " " + p.Target)
		if says := askerSays(p.Reason); says != "" {
			line += "  (" + says + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// askerSays marks words that nobody has checked.
func askerSays(words string) string {
	if words = inLine(words); words == "" {
		return ""
	}
	return "who asks says: “" + words + "”"
}

func inLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func metadata(all map[string]string) string {
	var lines []string
	for key, value := range all {
		lines = append(lines, inLine(key+": "+value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// became says where an approval stands, and who brought it there.
func became(p perdure.Approval, now clock) string {
	text := string(p.State)
	if p.By != "" {
		text += " by " + p.By
	}
	if !p.At.IsZero() {
		text += " " + ago(p.At, now)
	}
	return text
}

func expiry(p perdure.Approval, now clock) string {
	switch {
	case p.State != perdure.ApprovalOpen:
		return ""
	case p.ExpiresAt.IsZero():
		return "never"
	case p.ExpiresAt.Before(now.Time):
		return "now"
	}
	return now.until(p.ExpiresAt)
}

func approvalColor(s perdure.ApprovalState) color {
	switch s {
	case perdure.ApprovalOpen:
		return yellow
	case perdure.ApprovalApproved:
		return green
	}
	return red
}

// verdictLines are the two commands that answer an open approval.
func (a *app) verdictLines(p perdure.Approval) string {
	if p.State != perdure.ApprovalOpen {
		return ""
	}
	return program + " approve " + a.place() + string(p.ID) + "\n" + program + " approval deny " + a.place() + string(p.ID) + " --note WHY"
}

type approvalApprove struct {
	Approval string `arg:"" help:"Its id, or a unique beginning of it."`
	Note     string `help:"Why; it stands in the journal." placeholder:"TEXT"`
	Args     string `help:"Approve the call with these arguments instead; they are judged anew, so that it may be asked about again. @FILE reads them from a file, - from stdin." placeholder:"JSON"`
	DryRun   bool   `help:"Only show what would be approved."`
	Yes      bool   `short:"y" help:"Do not ask."`
	output
}

// Run shows what exactly is approved, asks, and records the verdict for just that (AP3).
func (c *approvalApprove) Run(ctx context.Context, a *app) error {
	verdict := perdure.Verdict{Approve: true, By: operator, Note: c.Note}
	if c.Args != "" {
		text, err := a.argument(c.Args)
		if err != nil {
			return err
		}
		if _, err := perdure.CanonicalJSON([]byte(text)); err != nil {
			return misuse("--args: "+err.Error(), "they are a JSON object, as perdure approval show prints it")
		}
		verdict.Args = json.RawMessage(strings.TrimSpace(text))
	}
	return verdictOn{c.Approval, c.DryRun, c.output}.decide(ctx, a, func(p perdure.Approval) (perdure.Verdict, error) {
		now := a.now()
		a.fieldsOn(a.Stderr, a.paint.talk, append(a.asked(p, now), field{"instead", cell{text: a.exact(verdict.Args)}}))
		if c.DryRun {
			a.say("would approve %s", p.ID)
			return verdict, exit(exitOK)
		}
		if !c.Yes && !a.Terminal.Stdin {
			return verdict, &fault{
				code: exitApproval, what: "this needs a yes, and there is no terminal to ask; nothing was changed",
				todo: "--yes says it: " + program + " approve " + a.place() + string(p.ID) + " --yes",
			}
		}
		verdict.ArgsHash = p.ArgsHash
		return verdict, a.confirm(ctx, c.Yes, "let "+p.Tool+" run once with exactly this?")
	})
}

type approvalDeny struct {
	Approval string `arg:"" help:"Its id, or a unique beginning of it."`
	Note     string `help:"Why; the agent reads it." placeholder:"TEXT"`
	DryRun   bool   `help:"Only say what would be done."`
	output
}

// Run refuses a call. Nobody is asked whether that is meant: nothing runs.
func (c *approvalDeny) Run(ctx context.Context, a *app) error {
	return verdictOn{c.Approval, c.DryRun, c.output}.decide(ctx, a, func(p perdure.Approval) (perdure.Verdict, error) {
		if c.DryRun {
			a.say("would deny %s: %s %s", p.ID, a.line(p.Tool, cellChars), a.line(redact.Document(p.Args), 2*cellChars))
			return perdure.Verdict{}, exit(exitOK)
		}
		return perdure.Verdict{By: operator, Note: c.Note, ArgsHash: p.ArgsHash}, nil
	})
}

// verdictOn says what a verdict is about, and how it is printed.
type verdictOn struct {
	typed string // the approval
	dry   bool   // nothing is to be changed
	out   output
}

// decide finds an open approval, records the verdict that word comes to, and prints what became of it. An exit code of
// word ends it before anything is changed.
func (v verdictOn) decide(ctx context.Context, a *app, word func(perdure.Approval) (perdure.Verdict, error)) error {
	if err := v.out.suits(perdure.Approval{}); err != nil {
		return err
	}
	return a.with(ctx, writing(v.dry), func(eng Engine) error {
		p, err := a.approval(ctx, eng, v.typed)
		if err != nil {
			return err
		}
		if p.State != perdure.ApprovalOpen {
			return a.closed(p)
		}
		verdict, err := word(p)
		if err != nil {
			return err
		}
		decided, err := eng.DecideApproval(ctx, p.ID, verdict)
		if err != nil {
			return a.undecided(ctx, eng, p, err)
		}
		a.say("%s %s of %s: %s", decided.State, decided.ID, a.line(decided.Tool, cellChars), consequence(decided))
		a.say("where nobody works on it, it goes on with: %s run %s--session %s", program, a.place(), decided.Session)
		return v.out.show(ctx, a, shown{string(decided.ID), decided, func() {
			now := a.now()
			a.fields(
				field{"approval", cell{string(decided.ID), bold}},
				field{"state", cell{became(decided, now), approvalColor(decided.State)}},
				field{"note", cell{text: decided.Note}},
				field{"run with", cell{text: a.exact(decided.NewArgs)}},
			)
		}})
	})
}

// consequence says what follows from a verdict.
func consequence(p perdure.Approval) string {
	switch {
	case p.State != perdure.ApprovalApproved:
		return "the call does not run, and the agent is told"
	case len(p.NewArgs) > 0:
		return "the call is judged anew, with the arguments that you gave"
	}
	return "the call runs once, with exactly these arguments"
}

// undecided says why a verdict was not taken. Somebody may have been faster (AP9).
func (a *app) undecided(ctx context.Context, eng engine.Approvals, p perdure.Approval, why error) error {
	if !errors.Is(why, perdure.Conflict) {
		return why
	}
	now, err := eng.Approval(ctx, p.ID)
	if err == nil && now.State != perdure.ApprovalOpen {
		return a.closed(now)
	}
	return &fault{err: why, what: why.Error(), todo: "look at it again: " + program + " approval show " + a.place() + string(p.ID)}
}

// closed says what became of an approval that cannot be answered any more.
func (a *app) closed(p perdure.Approval) error {
	return &fault{
		err:  perdure.Conflict,
		what: fmt.Sprintf("approval %s is already closed: it was %s%s", p.ID, became(p, a.now()), because(inLine(p.Note))),
		todo: program + " approval show " + a.place() + string(p.ID) + "  tells all of it; " + program + " approval list " + a.place() + " shows what is open",
	}
}
