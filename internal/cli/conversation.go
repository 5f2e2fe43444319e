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

// conversation is a run that continues in a session.
type conversation struct {
	a      *app
	eng    Engine
	stream *stream
	lines  *inputReader // reads the user's messages; nil: there is no user
	asked  atomic.Bool  // a Ctrl-C was handled since the last message

	questions      *questions   // asks the user for approvals; nil: nobody is asked here
	answers        *inputReader // reads the answers; the same as lines where that is set
	earlyInput     []string     // lines typed before a question came; they are sent later
	lastHoldReason string       // the last reason shown for why nothing is answered

	metadata map[string]string // of every message
}

// send sends a message to the session, with images after the text. The message is durable when send
// returns.
func (c *conversation) send(ctx context.Context, text string, images ...perdure.Part) error {
	c.stream.sending()
	message := perdure.Text(text)
	message.Metadata = c.metadata
	message.Parts = append(message.Parts, images...)
	_, err := c.eng.Send(ctx, c.stream.id, message)
	return err
}

// singleTurn shows the session until it is idle, and reports how the run went.
func (c *conversation) singleTurn(ctx context.Context) error {
	err := turnIsRunning(ctx, c.eng, c.waitIdle)
	c.a.message("%s", c.stream.tally.cost(c.costs(ctx)))
	if err != nil {
		c.printLeftBehind(err)
		return err
	}
	if err := c.holdError(ctx); err != nil {
		return c.stream.tally.interruptError(err)
	}
	return c.withDetails(c.stream.tally.exitError())
}

// withDetails adds to the error of a run where its details are.
func (c *conversation) withDetails(err error) error {
	var f *userError
	if errors.As(err, &f) && f.hint == "" {
		f.hint = "details: " + program + " event list " + c.a.storeFlags() + string(c.stream.id)
	}
	return err
}

// waitIdle shows the session until it is idle, and asks the user for approvals meanwhile.
func (c *conversation) waitIdle(ctx context.Context) error {
	if c.questions == nil {
		return c.stream.waitIdle(ctx)
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
	return c.stream.waitIdle(ctx)
}

// costTimeout is how long the end of a run waits for its cost.
const costTimeout = 2 * time.Second

// costs returns the cost of the model calls of this run, or "unknown" with the reason, and the time
// in models and tools. It also works after the context of the run has ended, so that an interrupted
// run still reports its cost.
func (c *conversation) costs(ctx context.Context) (spent string, work time.Duration) {
	const unknown = "unknown"
	if c.stream.tally.first.IsZero() {
		return unknown, 0
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), costTimeout)
	defer stop()
	report, err := c.eng.Budgets().Costs(ctx,
		engine.CostQuery{Group: "session", Session: c.stream.id, Since: c.stream.tally.first})
	if err != nil || report.Total.ModelCalls == 0 {
		return unknown, 0
	}
	spent = cost(report.Total)
	if spent == unknown && len(report.Total.Models) > 0 {
		spent += " (no price for " + strings.Join(report.Total.Models, ", ") + ")"
	}
	return spent, time.Duration(report.Total.Milliseconds) * time.Millisecond
}

// interrupt handles the first Ctrl-C: it ends the turn, and nothing that runs in the background
// (C9).
func (c *conversation) interrupt(ctx context.Context) bool {
	if mine, taken := c.questions.ctrlC(); mine {
		return taken
	}
	if c.asked.Swap(true) {
		return false
	}
	if !c.stream.busy() {
		c.a.message("\nno turn is running; press Ctrl-C again to exit; %s for the next run", leftBehind(c.stream.open()))
		return true
	}
	c.a.message("\nturn interrupted; press Ctrl-C again to exit")
	if err := c.stream.interrupt(ctx); err != nil {
		c.a.reportError(err)
	}
	return true
}

func leftBehind(tasks int) string {
	if tasks == 0 {
		return "the session is kept"
	}
	return count(tasks, "background task") + " kept"
}

// printLeftBehind says how to continue after a run that ended early.
func (c *conversation) printLeftBehind(err error) {
	if errors.Is(err, errInterrupted) && !c.stream.isIdle() {
		c.a.message("%s; continue with: %s run %s--session %s", leftBehind(c.stream.open()), program, c.a.storeFlags(),
			c.stream.id)
	}
}

// run is the prompt loop: the user and the agent take turns, while results of background work are
// delivered.
func (c *conversation) run(ctx context.Context) error {
	c.stream.quietCh = make(chan struct{}, 1)
	if !c.stream.busy() {
		c.stream.quietCh <- struct{}{}
	}
	err := turnIsRunning(ctx, c.eng, func(ctx context.Context) error {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		followed := make(chan error, 1) // capacity 1: the result is sent even if nobody waits for it
		go func() {
			err := c.stream.follow(ctx, func(perdure.Event) error { return nil })
			end(err)
			followed <- err
		}()
		err := c.loop(ctx)
		end(nil)
		return errors.Join(err, endOf(<-followed))
	})
	c.a.message("%s", c.stream.tally.cost(c.costs(ctx)))
	c.printLeftBehind(err)
	return err
}

// endOf drops the error of an end that the loop itself caused.
func endOf(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted) {
		return nil
	}
	return err
}

// loop prompts whenever no turn runs, until the input ends.
func (c *conversation) loop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.printEvent():
			if err := c.questions.all(ctx); err != nil {
				return err
			}
			continue
		case <-c.stream.quietCh:
		}
		c.printHold(ctx)
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

// printHold says why a message is not answered, once per reason.
func (c *conversation) printHold(ctx context.Context) {
	err := c.holdError(ctx)
	switch {
	case err == nil:
		c.lastHoldReason = ""
	case c.lastHoldReason != err.Error():
		c.lastHoldReason = err.Error()
		c.a.reportError(err)
	}
}

// printEvent signals that an approval was requested or answered; nil: nobody is asked here.
func (c *conversation) printEvent() <-chan struct{} {
	if c.questions == nil {
		return nil
	}
	return c.stream.askedCh
}

// ask waits for a line that is not blank. It returns "" at the end of the input.
func (c *conversation) ask(ctx context.Context) (string, error) {
	for prompt := true; ; {
		if len(c.earlyInput) > 0 {
			text := c.earlyInput[0]
			c.earlyInput = c.earlyInput[1:]
			return text, nil
		}
		if prompt {
			fmt.Fprint(c.a.Stderr, "> ")
		}
		prompt = true
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-c.printEvent():
			if _, open := c.questions.next(); open == 0 {
				prompt = false
				continue
			}
			fmt.Fprintln(c.a.Stderr)
			if err := c.questions.all(ctx); err != nil {
				return "", err
			}
		case line, more := <-c.lines.next():
			c.lines.received()
			if !more {
				c.a.message("")
				return "", nil
			}
			if line = strings.TrimSpace(line); line != "" {
				return line, nil
			}
		}
	}
}

// readLines reads what the user types. The goroutine ends with the input or with ctx. A read from a
// terminal cannot be canceled, so this is the one goroutine that nobody waits for.
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
