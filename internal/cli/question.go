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

// What Ctrl-C means while a call is asked about.
const (
	nobodyAsked int32 = iota // what it always means
	askedYes                 // what to do about the question
	askedWay                 // that was asked already: it leaves
	editing                  // nothing here: it is the editor's
)

// The prompts.
const (
	promptYes = "Run it? [y/N/e(dit)/?] "
	promptWay = "Deny it (d), leave it open and quit (q), or go on waiting (w)? [d/q/W] "
)

// questions puts what needs a yes to the person at the terminal, one call after another. One goroutine asks; around and ctrlC are
// for any.
type questions struct {
	c       *conversation
	settled map[perdure.ApprovalID]bool // answered here, or closed elsewhere; the journal may not have said so yet
	pressed chan struct{}               // Ctrl-C. Capacity 1: only the first one is told, and the second one leaves
	state   atomic.Int32                // what Ctrl-C means

	mu     sync.Mutex
	prompt string // guarded by mu; what stands in the line that waits for an answer; empty: nothing does
}

// asking makes the run put to the person at the terminal what needs a yes.
func (c *conversation) asking(ctx context.Context) *questions {
	if c.lines == nil {
		c.answers = c.a.typist(ctx)
	} else {
		c.answers = c.lines
	}
	c.questions = &questions{c: c, settled: map[perdure.ApprovalID]bool{}, pressed: make(chan struct{}, 1)}
	c.stream.asked = make(chan struct{}, 1)
	signal(c.stream.asked) // some may be open already
	return c.questions
}

// ctrlC takes a Ctrl-C while a question is open.
func (q *questions) ctrlC() (mine, taken bool) {
	if q == nil {
		return false, false
	}
	switch q.state.Load() {
	case askedYes:
		signal(q.pressed)
		return true, true
	case askedWay:
		return true, false
	case editing:
		return true, true
	}
	return false, false
}

// around lets talk stand in a line of its own, and puts the prompt below it again. q may be nil.
func (q *questions) around(talk func()) {
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

// put shows a prompt; empty: the line has its answer.
func (q *questions) put(prompt string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.prompt = prompt
	fmt.Fprint(q.c.a.Stderr, prompt)
}

// run asks for ever, until ctx ends or the person leaves.
func (q *questions) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.c.stream.asked:
			if err := q.all(ctx); err != nil {
				return err
			}
		}
	}
}

// all asks about whatever is open.
func (q *questions) all(ctx context.Context) error {
	defer q.state.Store(nobodyAsked)
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

// next is the approval that is asked about next, and how many are open.
func (q *questions) next() (p perdure.Approval, n int) {
	open := slices.DeleteFunc(q.c.stream.approvals(), func(p perdure.Approval) bool { return q.settled[p.ID] })
	if len(open) == 0 {
		return p, 0
	}
	return open[0], len(open)
}

// asked is one question as it stands.
type asked struct {
	approval perdure.Approval
	instead  json.RawMessage // the arguments that the person gave; nil: those of the call
}

// ask asks about one call, until it has its answer from here or from elsewhere.
func (q *questions) ask(ctx context.Context, p perdure.Approval, open int) error {
	if line := q.c.answers.early(); line != "" { // it was typed before the question was there to be read
		q.c.early = append(q.c.early, line)
	}
	if q.c.a.Forget != nil {
		q.c.a.Forget()
	}
	one := &asked{approval: p}
	q.show(p, open)
	q.state.Store(askedYes)
	q.put(promptYes)
	defer q.put("")
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.c.stream.asked:
			still := func(other perdure.Approval) bool { return other.ID == p.ID }
			if !slices.ContainsFunc(q.c.stream.approvals(), still) {
				q.settled[p.ID] = true
				q.around(func() { q.c.a.say("that is decided: the question of %s is closed", p.Tool) })
				return nil
			}
		case <-q.pressed:
			q.state.Store(askedWay)
			fmt.Fprintln(q.c.a.Stderr)
			q.put(promptWay)
		case line, more := <-q.c.answers.next():
			q.c.answers.took()
			q.put("")
			if !more {
				return q.leave(p)
			}
			done, err := q.answer(ctx, one, strings.TrimSpace(line))
			if done || err != nil {
				return err
			}
			q.state.Store(askedYes)
			q.put(promptYes)
		}
	}
}

// answer does what a line says, and reports whether the question has its answer.
func (q *questions) answer(ctx context.Context, one *asked, line string) (done bool, err error) {
	word, why, _ := strings.Cut(line, " ")
	word = strings.ToLower(word)
	if q.state.Load() == askedWay {
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
		return q.decide(ctx, one, perdure.Verdict{Approve: true, Args: one.instead})
	case "", "n", "no":
		return q.decide(ctx, one, perdure.Verdict{Note: strings.TrimSpace(why)})
	case "e", "edit":
		return false, q.edit(ctx, one)
	case "?", "h", "help":
		q.help(one)
	default:
		q.c.a.say("nothing was decided: y runs it, n refuses it, and ? says more")
	}
	return false, nil
}

// decide records a verdict on what was shown. Somebody may have been faster, and then that stands.
func (q *questions) decide(ctx context.Context, one *asked, v perdure.Verdict) (done bool, err error) {
	p := one.approval
	v.By, v.ArgsHash = operator, p.ArgsHash
	_, err = q.c.eng.DecideApproval(ctx, p.ID, v)
	switch {
	case err == nil:
		q.settled[p.ID] = true
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	err = q.c.a.undecided(ctx, q.c.eng, p, err)
	q.c.a.complain(err)
	now, unread := q.c.eng.Approval(ctx, p.ID)
	if errors.Is(unread, perdure.NotFound) || unread == nil && now.State != perdure.ApprovalOpen {
		q.settled[p.ID] = true
		return true, nil
	}
	one.instead = nil // what was refused is not offered again
	return false, nil
}

// leave ends the run, and leaves the question open.
func (q *questions) leave(p perdure.Approval) error {
	a := q.c.a
	return &fault{
		code: exitApproval, what: fmt.Sprintf("%s is left open: %s waits for a yes", p.ID, a.line(p.Tool, cellChars)),
		todo: a.verdictLines(p) + "\nanswer it, and this goes on: " + program + " run " + a.place() + "--session " + string(q.c.stream.id),
	}
}

// show says what would run.
func (q *questions) show(p perdure.Approval, open int) {
	a := q.c.a
	more := ""
	if open > 1 {
		more = fmt.Sprintf(" (%d are open)", open)
	}
	q.around(func() {
		a.say("%s %s asks for a yes%s", a.paint.talk.mark(yellow, "!"), a.line(p.Tool, cellChars), more)
		fields := append([]field{{"approval", cell{text: string(p.ID)}}}, a.whatRuns(p.Args)...)
		a.fieldsOn(a.Stderr, a.paint.talk, append(fields,
			field{"permissions", cell{text: permissions(p.Permissions)}},
			field{"reason", cell{text: askerSays(p.Why)}},
			field{"summary", cell{text: askerSays(p.Summary)}},
			field{"task", cell{text: string(p.Task)}},
			field{"expires", cell{text: until(p, a.now())}},
		))
	})
}

// until is when nobody can answer any more; empty: somebody always can.
func until(p perdure.Approval, now clock) string {
	if p.ExpiresAt.IsZero() {
		return ""
	}
	return expiry(p, now)
}

// whatRuns shows arguments. A command is shown as the lines that it is, where it shows as just that: without anything that
// could drive a terminal or hide a part of it.
func (a *app) whatRuns(args json.RawMessage) []field {
	var rest map[string]json.RawMessage
	var command string
	if perdure.DecodeKnownJSON(args, &rest) != nil || perdure.DecodeKnownJSON(rest["command"], &command) != nil || !shownAsIs(command) {
		return []field{{"arguments", cell{text: a.exact(args)}}}
	}
	delete(rest, "command")
	fields := []field{{"command", cell{text: command, color: bold}}}
	if others, err := json.Marshal(rest); err == nil && len(rest) > 0 {
		fields = append(fields, field{"arguments", cell{text: a.exact(others)}})
	}
	return fields
}

// shownAsIs reports whether text stands on a terminal as it is, with nothing behind its end that cannot be seen.
func shownAsIs(text string) bool {
	return text != "" && plain(text) == text && !strings.Contains(text, "\t") && strings.TrimRight(text, " \n") == text
}

// help says all that is known, and what the answers do.
func (q *questions) help(one *asked) {
	a := q.c.a
	a.fieldsOn(a.Stderr, a.paint.talk, append(a.asked(one.approval, a.now()), field{"instead", cell{text: a.exact(one.instead)}}))
	a.say("y      runs it once, with exactly this")
	a.say("n      refuses it, as Enter does; n WHY tells the agent why")
	a.say("e      changes the arguments, in $VISUAL or $EDITOR, and asks again")
	a.say("Ctrl-C asks whether to refuse it, to leave it open and quit, or to go on waiting")
}
