package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// conversation is a run that goes on in a session.
type conversation struct {
	a      *app
	eng    Engine
	stream *stream
	lines  *typist     // reads what a person says; nil: nobody does
	asked  atomic.Bool // a Ctrl-C was taken since a person spoke

	questions *questions // puts to the person what needs a yes; nil: nobody is asked here
	answers   *typist    // reads the answers; lines, where there are any
	early     []string   // what was typed before a question came: it is said later
	told      string     // what the person was told last of why nothing is answered
}

// send hands a message to the session. It is durable when send returns.
func (c *conversation) send(ctx context.Context, text string) error {
	c.stream.sending()
	return c.eng.Send(ctx, c.stream.id, perdure.Text(text))
}

// once shows the session until it is at rest, and says how the run went.
func (c *conversation) once(ctx context.Context) error {
	err := turning(ctx, c.eng, c.untilRest)
	c.a.say("%s", c.stream.tally.cost(c.money(ctx)))
	if err != nil {
		c.left(err)
		return err
	}
	if err := c.held(ctx); err != nil {
		return c.stream.tally.cut(err)
	}
	return c.stream.tally.end()
}

// untilRest shows the session until it is at rest, and asks the person meanwhile.
func (c *conversation) untilRest(ctx context.Context) error {
	if c.questions == nil {
		return c.stream.untilRest(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer end(nil)
	group.Go(func() {
		if err := c.questions.run(ctx); err != nil {
			end(err)
		}
	})
	return c.stream.untilRest(ctx)
}

// moneyTime is how long the end of a run waits for its price.
const moneyTime = 2 * time.Second

// money is what the models of this run cost, as far as it is known: the run of a session is told to its end, also where it was
// left.
func (c *conversation) money(ctx context.Context) string {
	const unknown = "unknown"
	if c.stream.tally.first.IsZero() {
		return unknown
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), moneyTime)
	defer stop()
	report, err := c.eng.Costs(ctx, engine.CostQuery{Group: "session", Session: c.stream.id, Since: c.stream.tally.first})
	if err != nil || report.Total.ModelCalls == 0 {
		return unknown
	}
	return cost(report.Total)
}

// interrupt takes the first Ctrl-C: it ends the turn, and nothing that runs in the background (C9).
func (c *conversation) interrupt(ctx context.Context) bool {
	if mine, taken := c.questions.ctrlC(); mine {
		return taken
	}
	if c.asked.Swap(true) {
		return false
	}
	if !c.stream.busy() {
		c.a.say("\nno turn runs; Ctrl-C again leaves; %s for the next run", leftBehind(c.stream.open()))
		return true
	}
	c.a.say("\nthe turn is interrupted; Ctrl-C again leaves")
	if err := c.stream.interrupt(ctx); err != nil {
		c.a.complain(err)
	}
	return true
}

func leftBehind(tasks int) string {
	if tasks == 0 {
		return "the session stays"
	}
	return count(tasks, "task") + " in the background stay"
}

// left says how to go on after a run that was left in the middle.
func (c *conversation) left(err error) {
	if errors.Is(err, errInterrupted) && !c.stream.atRest() {
		c.a.say("%s; go on with: %s run %s--session %s", leftBehind(c.stream.open()), program, c.a.place(), c.stream.id)
	}
}

// run is the prompt loop: a person and the agent take turns, while work in the background comes home.
func (c *conversation) run(ctx context.Context) error {
	c.stream.quiet = make(chan struct{}, 1)
	if !c.stream.busy() {
		c.stream.quiet <- struct{}{}
	}
	err := turning(ctx, c.eng, func(ctx context.Context) error {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		followed := make(chan error, 1) // one answer, whether or not somebody waits for it
		go func() {
			err := c.stream.follow(ctx, func(perdure.Event) error { return nil })
			end(err)
			followed <- err
		}()
		err := c.loop(ctx)
		end(nil)
		return errors.Join(err, endOf(<-followed))
	})
	c.a.say("%s", c.stream.tally.cost(c.money(ctx)))
	c.left(err)
	return err
}

// endOf leaves out the end that the loop itself asked for.
func endOf(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted) {
		return nil
	}
	return err
}

// loop asks whenever no turn runs, until the input ends.
func (c *conversation) loop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.news():
			if err := c.questions.all(ctx); err != nil {
				return err
			}
			continue
		case <-c.stream.quiet:
		}
		c.tellHeld(ctx)
		text, err := c.ask(ctx)
		if err != nil || text == "" {
			return err
		}
		c.asked.Store(false)
		if err := c.send(ctx, text); err != nil {
			return err
		}
	}
}

// tellHeld says why what was said is not answered, once.
func (c *conversation) tellHeld(ctx context.Context) {
	err := c.held(ctx)
	switch {
	case err == nil:
		c.told = ""
	case c.told != err.Error():
		c.told = err.Error()
		c.a.complain(err)
	}
}

// news tells that something needs a yes, or has had its answer; nil: nobody is asked here.
func (c *conversation) news() <-chan struct{} {
	if c.questions == nil {
		return nil
	}
	return c.stream.asked
}

// ask waits for a line that says something. It is empty at the end of the input.
func (c *conversation) ask(ctx context.Context) (string, error) {
	for prompt := true; ; {
		if len(c.early) > 0 {
			text := c.early[0]
			c.early = c.early[1:]
			return text, nil
		}
		if prompt {
			fmt.Fprint(c.a.Stderr, "> ")
		}
		prompt = true
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-c.news():
			if _, open := c.questions.next(); open == 0 {
				prompt = false
				continue
			}
			fmt.Fprintln(c.a.Stderr)
			if err := c.questions.all(ctx); err != nil {
				return "", err
			}
		case line, more := <-c.lines.next():
			c.lines.took()
			if !more {
				c.a.say("")
				return "", nil
			}
			if line = strings.TrimSpace(line); line != "" {
				return line, nil
			}
		}
	}
}

// readLines reads what a person types. The goroutine ends with the input or with ctx; a read that waits for
// a terminal can be ended by nobody, so it is the one goroutine that is not waited for.
func (a *app) readLines(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(a.stdin)
		in.Buffer(nil, maxInput)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}
