package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure"
)

// What Ctrl-C means while an approval is asked for.
const (
	noPrompt       int32 = iota // its usual meaning
	approvalPrompt              // asks what to do about the question
	exitPrompt                  // that was asked already: Ctrl-C exits
	editing                     // nothing here: the editor handles it
)

// The prompts.
const (
	approvalPromptText = "Run it? [y/N/e(dit)/?] "
	exitPromptText     = "Deny (d), leave it open and quit (q), or keep waiting (w)? [d/q/W] "
)

// questions asks the user at the terminal for approvals, one call after another. One goroutine
// asks; around and ctrlC are safe for concurrent use.
type questions struct {
	c          *conversation
	decided    map[perdure.ApprovalID]bool // answered here, or closed elsewhere; the journal may not contain it yet
	interrupts chan struct{}               // a Ctrl-C. Capacity 1: only the first one is sent, the second one exits
	state      atomic.Int32                // the meaning of Ctrl-C

	mu     sync.Mutex
	prompt string           // guarded by mu; the prompt that waits for an answer; empty: none
	asking perdure.Approval // guarded by mu; what the prompt is about
}

// startQuestions makes the run ask the user at the terminal for approvals.
func (c *conversation) startQuestions(ctx context.Context) *questions {
	if c.lines == nil {
		c.answers = c.a.inputReader(ctx)
	} else {
		c.answers = c.lines
	}
	c.questions = &questions{c: c, decided: map[perdure.ApprovalID]bool{}, interrupts: make(chan struct{}, 1)}
	c.stream.askedCh = make(chan struct{}, 1)
	signal(c.stream.askedCh) // some may be open already
	return c.questions
}

// ctrlC handles a Ctrl-C while a question is open.
func (q *questions) ctrlC() (mine, taken bool) {
	if q == nil {
		return false, false
	}
	switch q.state.Load() {
	case approvalPrompt:
		signal(q.interrupts)
		return true, true
	case exitPrompt:
		return true, false
	case editing:
		return true, true
	}
	return false, false
}

// withoutPrompt prints talk on lines of its own, and repeats the prompt below. q may be nil.
func (q *questions) withoutPrompt(talk func()) {
	if q == nil {
		talk()
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.prompt == "" {
		talk()
		return
	}
	fmt.Fprintln(q.c.a.Stderr)
	talk()
	fmt.Fprint(q.c.a.Stderr, q.prompt)
}

// close ends the prompt about an approval that somebody else has decided. It does nothing if there
// is no such prompt. q may be nil.
func (q *questions) close(id perdure.ApprovalID) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asking.ID != id || q.prompt == "" {
		return
	}
	q.prompt = ""
	fmt.Fprintln(q.c.a.Stderr)
	q.c.a.message("question closed: %s needs no answer any more", q.asking.Tool)
}

// printPrompt shows a prompt; empty: the prompt was answered.
func (q *questions) printPrompt(prompt string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.prompt = prompt
	fmt.Fprint(q.c.a.Stderr, prompt)
}

// run asks until ctx ends or the user exits.
func (q *questions) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.c.stream.askedCh:
			if err := q.all(ctx); err != nil {
				return err
			}
		}
	}
}

// all asks about every open approval.
func (q *questions) all(ctx context.Context) error {
	defer q.state.Store(noPrompt)
	for {
		p, n := q.next()
		if n == 0 {
			return nil
		}
		if err := q.ask(ctx, p, n); err != nil {
			return err
		}
	}
}

// next returns the next approval to ask about, and how many are open.
func (q *questions) next() (p perdure.Approval, n int) {
	open := slices.DeleteFunc(q.c.stream.approvals(), func(p perdure.Approval) bool { return q.decided[p.ID] })
	if len(open) == 0 {
		return p, 0
	}
	return open[0], len(open)
}

// openQuestion is the current question.
type openQuestion struct {
	approval   perdure.Approval
	editedArgs json.RawMessage // the arguments that the user entered; nil: those of the call
}

// ask asks about one call, until it is answered here or elsewhere.
func (q *questions) ask(ctx context.Context, p perdure.Approval, open int) error {
	if line := q.c.answers.pending(); line != "" { // typed before the question was shown
		q.c.earlyInput = append(q.c.earlyInput, line)
	}
	if q.c.a.DiscardInput != nil {
		q.c.a.DiscardInput()
	}
	one := &openQuestion{approval: p}
	q.mu.Lock()
	q.asking = p
	q.mu.Unlock()
	q.show(p, open)
	q.state.Store(approvalPrompt)
	q.printPrompt(approvalPromptText)
	defer q.printPrompt("")
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.c.stream.askedCh:
			still := func(other perdure.Approval) bool { return other.ID == p.ID }
			if !slices.ContainsFunc(q.c.stream.approvals(), still) {
				q.decided[p.ID] = true
				q.close(p.ID)
				return nil
			}
		case <-q.interrupts:
			q.state.Store(exitPrompt)
			fmt.Fprintln(q.c.a.Stderr)
			q.printPrompt(exitPromptText)
		case line, more := <-q.c.answers.next():
			q.c.answers.received()
			q.printPrompt("")
			if !more {
				return q.leave(p)
			}
			done, err := q.answer(ctx, one, strings.TrimSpace(line))
			if done || err != nil {
				return err
			}
			q.state.Store(approvalPrompt)
			q.printPrompt(approvalPromptText)
		}
	}
}

// answer executes an answer, and reports whether the question is decided.
func (q *questions) answer(ctx context.Context, one *openQuestion, line string) (done bool, err error) {
	word, why, _ := strings.Cut(line, " ")
	word = strings.ToLower(word)
	if q.state.Load() == exitPrompt {
		switch word {
		case "d", "deny":
			return q.decide(ctx, one, perdure.Verdict{Note: strings.TrimSpace(why)})
		case "q", "quit":
			return false, q.leave(one.approval)
		}
		return false, nil
	}
	switch word {
	case "y", "yes":
		return q.decide(ctx, one, perdure.Verdict{Approve: true, Args: one.editedArgs})
	case "", "n", "no":
		return q.decide(ctx, one, perdure.Verdict{Note: strings.TrimSpace(why)})
	case "e", "edit":
		return false, q.edit(ctx, one)
	case "?", "h", "help":
		q.help(one)
	default:
		q.c.a.message("not an answer: type y to run it, n to deny it, or ? for help")
	}
	return false, nil
}

// decide records a decision on what was shown. If somebody else decided first, that decision holds.
func (q *questions) decide(ctx context.Context, one *openQuestion, v perdure.Verdict) (done bool, err error) {
	p := one.approval
	v.By, v.ArgsHash = operator, p.ArgsHash
	_, err = q.c.eng.Approvals().Decide(ctx, p.ID, v)
	switch {
	case err == nil:
		q.decided[p.ID] = true
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	err = approvalText{q.c.a}.decisionError(ctx, q.c.eng.Approvals(), p, err)
	q.c.a.reportError(err)
	now, unread := q.c.eng.Approvals().Get(ctx, p.ID)
	if errors.Is(unread, perdure.NotFound) || unread == nil && now.State != perdure.ApprovalOpen {
		q.decided[p.ID] = true
		return true, nil
	}
	one.editedArgs = nil // refused arguments are not offered again
	return false, nil
}

// leave ends the run and leaves the question open.
func (q *questions) leave(p perdure.Approval) error {
	a := q.c.a
	return &userError{
		code: exitApproval, message: fmt.Sprintf("%s is still open: %s waits for approval", p.ID,
			a.oneLine(p.Tool, cellChars)),
		hint: approvalText{a}.decisionCommands(p) + "\nanswer it, then continue with: " + program + " run " + a.storeFlags() + "--session " +
			string(q.c.stream.id),
	}
}

// show prints what would run.
func (q *questions) show(p perdure.Approval, open int) {
	a := q.c.a
	more := ""
	if open > 1 {
		more = fmt.Sprintf(" (%d are open)", open)
	}
	q.withoutPrompt(func() {
		a.message("%s %s needs your approval%s", a.colors.stderr.mark(yellow, "!"), a.oneLine(p.Tool, cellChars), more)
		fields := append([]field{{"approval", cell{text: string(p.ID)}}}, approvalText{a}.describeCall(p.Args)...)
		a.fieldsOn(a.Stderr, a.colors.stderr, append(fields,
			field{"permissions", cell{text: permissions(p.Permissions)}},
			field{"reason", cell{text: unverified(p.Reason)}},
			field{"summary", cell{text: unverified(p.Summary)}},
			field{"task", cell{text: string(p.Task)}},
			field{"expires", cell{text: waitState(p, a.now())}},
		))
	})
}

// waitState says when the approval expires; empty: never.
func waitState(p perdure.Approval, now clock) string {
	if p.ExpiresAt.IsZero() {
		return ""
	}
	return expiry(p, now)
}

// describeCall shows arguments. A command is shown as plain text if that is an exact
// representation: it contains nothing that could control a terminal or hide a part of it.
func (a approvalText) describeCall(args json.RawMessage) []field {
	var rest map[string]json.RawMessage
	var command string
	if perdure.DecodeKnownJSON(args, &rest) != nil || perdure.DecodeKnownJSON(rest["command"], &command) != nil ||
		!isPlainText(command) {
		return []field{{"arguments", cell{text: a.exactArguments(args)}}}
	}
	delete(rest, "command")
	fields := []field{{"command", cell{text: command, color: bold}}}
	if others, err := json.Marshal(rest); err == nil && len(rest) > 0 {
		fields = append(fields, field{"arguments", cell{text: a.exactArguments(others)}})
	}
	return fields
}

// isPlainText reports whether a terminal shows text exactly, without invisible characters at its
// end.
func isPlainText(text string) bool {
	return text != "" && printable(text) == text && !strings.Contains(text, "\t") && strings.TrimRight(text, " \n") == text
}

// help prints all details, and the possible answers.
func (q *questions) help(one *openQuestion) {
	a := q.c.a
	a.fieldsOn(a.Stderr, a.colors.stderr,
		append(approvalText{a}.approvalFields(one.approval, a.now()), field{"instead", cell{text: approvalText{a}.exactArguments(one.editedArgs)}}))
	a.message("y      run it once, with exactly these arguments")
	a.message("n      deny it (also Enter); n WHY gives the agent a reason")
	a.message("e      edit the arguments in $VISUAL or $EDITOR, then ask again")
	a.message("Ctrl-C choose to deny it, to leave it open and quit, or to keep waiting")
}
