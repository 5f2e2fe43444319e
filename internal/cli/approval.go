package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/strictjson"
)

type approvalCommand struct {
	List    approvalList    `cmd:"" aliases:"ls" help:"List approvals, newest first; by default only open ones."`
	Show    approvalShow    `cmd:"" help:"Show an approval with the exact arguments."`
	Approve approvalApprove `cmd:"" help:"Approve the call: it runs once, with exactly the arguments shown."`
	Deny    approvalDeny    `cmd:"" help:"Deny the call. The agent is notified and continues without it."`
}

type approvalList struct {
	listFlags
	Session string   `help:"Only approvals of this session." placeholder:"ID"`
	State   []string `help:"Only approvals in these states: open, approved, denied, expired, void. Default: open." placeholder:"STATE" xor:"state"`
	All     bool     `help:"Approvals in all states." xor:"state"`
}

// approvals describes how approvals are listed.
func approvals(now clock) outputList[perdure.Approval] {
	return outputList[perdure.Approval]{
		noun: "approvals",
		head: []string{"APPROVAL", "STATE", "TOOL", "CLASS", "AGE", "EXPIRES", "ARGUMENTS"},
		name: func(p perdure.Approval) string { return string(p.ID) },
		row: func(p perdure.Approval) []cell {
			return []cell{
				{string(p.ID), bold}, {string(p.State), approvalColor(p.State)}, {text: p.Tool},
				{text: string(p.Class)},
				{text: now.age(p.RequestedAt)}, {text: expiry(p, now)}, {text: redact.Document(p.Args)},
			}
		},
		wide: func(p perdure.Approval) []field {
			return []field{{"SESSION", cell{text: string(p.Session)}}, {"CALL", cell{text: string(p.Call)}},
				{"DECIDED BY", cell{text: p.DecidedBy}}}
		},
	}
}

// Run lists approvals.
func (c *approvalList) Run(ctx context.Context, a *app) error {
	wanted := []perdure.ApprovalState{perdure.ApprovalOpen}
	if len(c.State) > 0 {
		wanted = nil
	}
	for _, s := range c.State {
		if !perdure.ApprovalState(s).Valid() {
			return usageError(fmt.Sprintf("unknown approval state %q", s),
				"the states are open, approved, denied, expired and void")
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
		all, err := eng.Approvals().List(ctx, filter)
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
		chosen, err = newestWithin(c.listFlags, a.now().Time, chosen, func(p perdure.Approval) time.Time { return p.RequestedAt })
		if err != nil {
			return err
		}
		return approvals(a.now()).print(ctx, a, c.outputFlags, chosen)
	})
}

type approvalShow struct {
	Approval string `arg:"" help:"Id or unique id prefix."`
	outputFlags
}

// Run shows one approval.
func (c *approvalShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		p, err := a.approval(ctx, eng, c.Approval)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{string(p.ID), p, func() {
			now := a.now()
			a.fields(append(approvalText{a}.approvalFields(p, now),
				field{"note", cell{text: p.Note}},
				field{"run with", cell{text: approvalText{a}.exactArguments(p.NewArgs)}},
				field{"what to do", cell{text: approvalText{a}.decisionCommands(p)}},
			)...)
		}})
	})
}

// approvalFields returns all that a person should know before deciding: what exactly runs, and why
// it needs an approval.
func (a approvalText) approvalFields(p perdure.Approval, now clock) []field {
	return []field{
		{"approval", cell{string(p.ID), bold}},
		{"state", cell{stateLine(p, now), approvalColor(p.State)}},
		{"tool", cell{text: p.Tool + " (" + classOf(p.Class) + ")"}},
		{"arguments", cell{text: a.exactArguments(p.Args)}},
		{"digest", cell{text: p.ArgsHash}},
		{"permissions", cell{text: permissions(p.Permissions)}},
		{"reason", cell{text: unverified(p.Reason)}},
		{"summary", cell{text: unverified(p.Summary)}},
		{"more", cell{text: metadata(p.Metadata)}},
		{"session", cell{text: string(p.Session)}},
		{"call", cell{text: string(p.Call)}},
		{"task", cell{text: string(p.Task)}},
		{"requested", cell{text: moment(p.RequestedAt, now)}},
		{"expires", cell{text: expiry(p, now)}},
	}
}

// exactArguments writes arguments for a decision: nothing is omitted, and characters that could
// hide or reorder text are escaped, even without a terminal (C18).
func (a approvalText) exactArguments(args json.RawMessage) string {
	switch {
	case len(args) == 0:
		return ""
	case a.flags.Raw:
		return indented(args)
	}
	return string(printableJSON([]byte(indented(args))))
}

// classOf explains an effect class to the person who decides.
func classOf(c perdure.EffectClass) string {
	switch c {
	case perdure.Pure:
		return "pure: changes nothing"
	case perdure.Idempotent:
		return "idempotent: can safely run twice"
	case perdure.AtMostOnce:
		return "at_most_once: must not happen twice"
	}
	return string(c)
}

// permissions writes what a call wants to do, one line each. Texts of the tool are forced onto one
// line, so that they cannot imitate another line.
func permissions(all []perdure.Permission) string {
	var lines []string
	for _, p := range all {
		line := inLine(p.Kind + " " + p.Target)
		if says := unverified(p.Reason); says != "" {
			line += "  (" + says + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// unverified marks text that comes from the caller and is not verified.
func unverified(words string) string {
	if words = inLine(words); words == "" {
		return ""
	}
	return "unverified: “" + words + "”"
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

// stateLine describes the state of an approval, who decided it, and when.
func stateLine(p perdure.Approval, now clock) string {
	text := string(p.State)
	if p.DecidedBy != "" {
		text += " by " + p.DecidedBy
	}
	if !p.DecidedAt.IsZero() {
		text += " " + ago(p.DecidedAt, now)
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

// decisionCommands returns the two commands that answer an open approval.
func (a approvalText) decisionCommands(p perdure.Approval) string {
	if p.State != perdure.ApprovalOpen {
		return ""
	}
	return program + " approve " + a.storeFlags() + string(p.ID) + "\n" + program + " approval deny " + a.storeFlags() +
		string(p.ID) + " --note WHY"
}

type approvalApprove struct {
	Approval string `arg:"" help:"Id or unique id prefix."`
	Note     string `help:"Reason; it is recorded in the journal." placeholder:"TEXT"`
	Args     string `help:"Run the call with these arguments instead. Policies check them again, which can require another approval. @FILE reads them from a file, - from stdin." placeholder:"JSON"`
	DryRun   bool   `help:"Print what would be approved."`
	Yes      bool   `short:"y" help:"Do not ask for confirmation."`
	outputFlags
}

// Run shows what exactly is approved, asks for confirmation, and records the decision for exactly
// that (AP3).
func (c *approvalApprove) Run(ctx context.Context, a *app) error {
	verdict := perdure.Verdict{Approve: true, By: operator, Note: c.Note}
	if c.Args != "" {
		text, err := a.argument(c.Args)
		if err != nil {
			return err
		}
		if _, err := strictjson.Canonical([]byte(text)); err != nil {
			return usageError("--args: "+err.Error(), "give a JSON object, as printed by perdure approval show")
		}
		verdict.Args = json.RawMessage(strings.TrimSpace(text))
	}
	return approvalDecision{c.Approval, c.DryRun, c.outputFlags}.decide(ctx, a, func(p perdure.Approval) (perdure.Verdict, error) {
		now := a.now()
		a.fieldsOn(a.Stderr, a.colors.stderr, append(approvalText{a}.approvalFields(p, now), field{"instead", cell{text: approvalText{a}.exactArguments(verdict.Args)}}))
		if c.DryRun {
			a.message("would approve %s", p.ID)
			return verdict, exit(exitOK)
		}
		if !c.Yes && !a.Terminal.Stdin {
			return verdict, &userError{
				code:    exitApproval,
				message: "confirmation is needed, but there is no terminal to ask; nothing was changed",
				hint:    "confirm with --yes: " + program + " approve " + a.storeFlags() + string(p.ID) + " --yes",
			}
		}
		verdict.ArgsHash = p.ArgsHash
		return verdict, a.confirm(ctx, c.Yes, "run "+p.Tool+" once with exactly these arguments?")
	})
}

type approvalDeny struct {
	Approval string `arg:"" help:"Id or unique id prefix."`
	Note     string `help:"Reason, shown to the agent." placeholder:"TEXT"`
	actFlags
}

// Run denies a call. It does not ask for confirmation, because nothing runs.
func (c *approvalDeny) Run(ctx context.Context, a *app) error {
	return approvalDecision{c.Approval, c.DryRun, c.outputFlags}.decide(ctx, a, func(p perdure.Approval) (perdure.Verdict, error) {
		if c.DryRun {
			a.message("would deny %s: %s %s", p.ID, a.oneLine(p.Tool, cellChars), a.oneLine(redact.Document(p.Args), 2*cellChars))
			return perdure.Verdict{}, exit(exitOK)
		}
		return perdure.Verdict{By: operator, Note: c.Note, ArgsHash: p.ArgsHash}, nil
	})
}

// approvalDecision identifies the approval of a decision, and how the result is printed.
type approvalDecision struct {
	typed string // id of the approval, as typed
	dry   bool   // nothing is changed
	out   outputFlags
}

// decide finds an open approval, records the verdict that word returns, and prints the result. When
// resolution returns an exit code, nothing is changed.
func (v approvalDecision) decide(ctx context.Context, a *app, word func(perdure.Approval) (perdure.Verdict, error)) error {
	if err := v.out.checkFields(perdure.Approval{}); err != nil {
		return err
	}
	return a.with(ctx, writesAccess(v.dry), func(eng Engine) error {
		p, err := a.approval(ctx, eng, v.typed)
		if err != nil {
			return err
		}
		if p.State != perdure.ApprovalOpen {
			return approvalText{a}.closedError(p)
		}
		verdict, err := word(p)
		if err != nil {
			return err
		}
		decided, err := eng.Approvals().Decide(ctx, p.ID, verdict)
		if err != nil {
			return approvalText{a}.decisionError(ctx, eng.Approvals(), p, err)
		}
		a.message("%s %s of %s: %s", decided.State, decided.ID, a.oneLine(decided.Tool, cellChars), consequence(decided))
		a.message("if no server is running, continue with: %s run %s--session %s", program, a.storeFlags(), decided.Session)
		return v.out.show(ctx, a, outputObject{string(decided.ID), decided, func() {
			now := a.now()
			a.fields(
				field{"approval", cell{string(decided.ID), bold}},
				field{"state", cell{stateLine(decided, now), approvalColor(decided.State)}},
				field{"note", cell{text: decided.Note}},
				field{"run with", cell{text: approvalText{a}.exactArguments(decided.NewArgs)}},
			)
		}})
	})
}

// consequence says what follows from a decision.
func consequence(p perdure.Approval) string {
	switch {
	case p.State != perdure.ApprovalApproved:
		return "the call does not run, and the agent is notified"
	case len(p.NewArgs) > 0:
		return "the call is checked again with the new arguments"
	}
	return "the call runs once, with exactly these arguments"
}

// decisionError explains why a decision was refused. Somebody else may have decided first.
func (a approvalText) decisionError(ctx context.Context, eng engine.Approvals, p perdure.Approval, why error) error {
	if !errors.Is(why, perdure.Conflict) {
		return why
	}
	now, err := eng.Get(ctx, p.ID)
	if err == nil && now.State != perdure.ApprovalOpen {
		return a.closedError(now)
	}
	return &userError{err: why, message: why.Error(),
		hint: "check it again: " + program + " approval show " + a.storeFlags() + string(p.ID)}
}

// closedError reports an approval that is already decided.
func (a approvalText) closedError(p perdure.Approval) error {
	return &userError{
		err: perdure.Conflict,
		message: fmt.Sprintf("approval %s is already closed: it was %s%s", p.ID, stateLine(p, a.now()),
			because(inLine(p.Note))),
		hint: program + " approval show " + a.storeFlags() + string(p.ID) + "  shows the details; " + program +
			" approval list " + a.storeFlags() + " lists open approvals",
	}
}
