package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

type attachCommand struct {
	Task       string `arg:"" help:"Id, unique id prefix, or title."`
	Tail       int    `help:"Start with the last N lines of the log." placeholder:"N" default:"10"`
	ReadOnly   bool   `help:"Only show the output; send no input."`
	ExitStatus bool   `help:"Exit with 8 unless the task succeeds."`
}

// Run follows the output of a task, and sends it the user's input. Others who are attached see what
// was sent, and by whom (U-6). Detaching does not end the task (C7).
func (c *attachCommand) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error { // any process may answer, and the task need not be running
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		at := &attachment{a: a, eng: eng, id: t.ID, detach: make(chan struct{}), asked: make(chan struct{}, 1)}
		if at.others, err = newTaskMessages(ctx, eng.Tasks(), t.ID); err != nil {
			return err
		}
		at.storeFlags = logPosition{id: t.ID}
		if at.storeFlags.offset, err = tailOffset(ctx, eng.Tasks(), t.ID, max(c.Tail, 0)); err != nil {
			return err
		}
		if !c.ReadOnly && !t.State.Terminal() {
			restore := at.listen(ctx)
			defer restore()
		}
		err = at.run(ctx)
		switch {
		case errors.Is(err, errDetached), errors.Is(err, errInterrupted):
			a.message("\ndetached from %s, which continues; attach again with: %s attach %s%s", t.ID, program, a.storeFlags(),
				t.ID)
			if errors.Is(err, errDetached) {
				return nil
			}
			return err
		case err != nil:
			return err
		}
		a.message("%s has ended: %s%s", at.last.ID, at.last.State, because(taskError(at.last)))
		if c.ExitStatus && at.last.State != perdure.TaskSucceeded {
			return &userError{code: exitFailed, message: fmt.Sprintf("%s has ended: %s", at.last.ID, at.last.State),
				hint: taskText{a}.todo(at.last)}
		}
		return nil
	})
}

// errDetached ends an attach whose task continues.
var errDetached = errors.New("detached")

// attachment shows a task and sends it input.
type attachment struct {
	a            *app
	eng          Engine
	id           perdure.TaskID
	storeFlags   logPosition
	last         perdure.Task  // last state that was read; touched only by the goroutine of the log, and after its end
	printedState string        // id of the last question that was shown; likewise
	echo         io.Writer     // where input is echoed; nil: stderr
	lines        <-chan string // the user's input; nil: there is none. Closed at the end of the input
	others       *taskMessages

	detach chan struct{} // closed when the user detaches
	leave  sync.Once     // closes detach
	// openQuestion signals a Ctrl-C. Capacity 1: only the first one is sent, the second one exits.
	asked chan struct{}
}

// listen starts to read input and handles Ctrl-C. The returned function restores the terminal.
func (at *attachment) listen(ctx context.Context) (restore func()) {
	a := at.a
	restore = func() {}
	if a.flags.NoInput {
		return restore
	}
	if !a.Terminal.Stdin {
		at.lines = a.readLines(ctx)
		return restore
	}
	var pressed atomic.Bool
	stop := lifetime{a}.onCtrlC(func() bool {
		if pressed.Swap(true) {
			return false
		}
		at.asked <- struct{}{}
		return true
	})
	back, err := at.keys()
	if err != nil { // input arrives in lines, and the terminal echoes it
		a.message("attached to %s; detach with Ctrl-C; your input is sent to the task", at.id)
		at.lines = a.readLines(ctx)
		return stop
	}
	a.message("attached to %s; detach with Ctrl-P Ctrl-Q; your input is sent to the task", at.id)
	at.lines = at.sendInput(ctx)
	return func() {
		stop()
		if err := back(); err != nil {
			a.message("could not restore the terminal: %s; type: stty sane", a.oneLine(err.Error(), cellChars))
		}
	}
}

// keys switches the terminal to unbuffered keys. Unavailable: it cannot do that, or it cannot move
// the cursor, which the echo needs.
func (at *attachment) keys() (back func() error, err error) {
	if at.a.RawKeys == nil || !at.a.Terminal.Stderr || at.a.Env("TERM") == "dumb" {
		return nil, perdure.Unavailable
	}
	return at.a.RawKeys()
}

// sendInput reads keys. Like that of readLines, its goroutine may block on a silent terminal, and
// nobody waits for it.
func (at *attachment) sendInput(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() {
		in, keys := bufio.NewReader(at.a.stdin), lineEditor{echo: at.a.Stderr}
		if at.echo != nil {
			keys.echo = at.echo
		}
		for {
			// the terminal is gone; there may be no SIGHUP, for instance below nohup
			line, whole, leaves := "", false, true
			if b, err := in.ReadByte(); err == nil {
				line, whole, leaves = keys.press(b)
			}
			if leaves {
				at.leave.Do(func() { close(at.detach) })
				return
			}
			if !whole {
				continue
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// run shows the log until the task has ended, and sends input.
func (at *attachment) run(ctx context.Context) error {
	var out io.Writer = at.a.out
	if at.a.Terminal.Stdout && !at.a.flags.Raw {
		safe := &printableWriter{w: at.a.out}
		defer safe.Close()
		out = safe
	}
	at.storeFlags.out = bytesOut{out}
	ctx, end := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer end(nil)
	shown := make(chan error, 1) // capacity 1: the result is sent even if nobody waits for it
	group.Go(func() {
		shown <- at.a.follow(ctx, pollEvery, func() (bool, error) { return at.runOnce(ctx) })
	})
	asking := false // the next line answers the question of Ctrl-C
	for {
		select {
		case err := <-shown:
			return err
		case <-at.detach:
			return errDetached
		case <-at.asked:
			asking = true
			fmt.Fprint(at.a.Stderr, "\nleave it running (d, the default), or cancel it (c)? [D/c] ")
		case line, more := <-at.lines:
			switch {
			case !more && asking:
				return errDetached
			case !more:
				at.lines = nil
			case asking && !isCancel(line):
				return errDetached
			case asking:
				asking = false
				if err := at.cancel(ctx); err != nil {
					return err
				}
			default:
				at.send(ctx, line)
			}
		}
	}
}

// isCancel reports whether the user wants to cancel the task. Any other input leaves it running.
func isCancel(line string) bool {
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "c" || word == "cancel"
}

// runOnce writes new output, and reports whether the task has ended.
func (at *attachment) runOnce(ctx context.Context) (bool, error) {
	t, err := at.eng.Tasks().Get(ctx, at.id)
	if err != nil {
		return false, fmt.Errorf("read task %s: %w", at.id, err)
	}
	at.last = t
	if at.storeFlags.offset, _, err = printLog(ctx, at.eng.Tasks(), at.storeFlags); err != nil {
		return false, err
	}
	err = at.others.fromOthers(ctx, func(m perdure.TaskMessage) {
		at.a.message("%s sent: %s", at.a.oneLine(senderOf(m), cellChars), at.a.oneLine(m.PlainText(), 300))
	})
	if err != nil {
		return false, err
	}
	if q := t.InputRequest; t.State == perdure.TaskAwaitingInput && q != nil && string(q.ID) != at.printedState {
		at.printedState = string(q.ID)
		at.a.message("it asks: %s", at.a.oneLine(q.Prompt, 300))
		if q.Kind == questionOfApproval {
			at.a.message("  %s", taskText{at.a}.approvalsOf(t))
		}
	}
	return t.State.Terminal(), nil
}

// send sends a line to the task: as the answer to its question, if there is one, else as a message.
// An error is shown and changes nothing.
func (at *attachment) send(ctx context.Context, line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	err := at.a.with(ctx, OpenOptions{Access: Writing}, func(eng Engine) error {
		t, err := eng.Tasks().Get(ctx, at.id)
		if err != nil {
			return err
		}
		m := perdure.TaskMessage{Text: line, By: operator}
		if q := t.InputRequest; t.State == perdure.TaskAwaitingInput && q != nil && q.Kind != questionOfApproval {
			m = answerTo(*q, line)
		}
		return at.others.send(ctx, eng.Tasks(), m)
	})
	if err != nil && ctx.Err() == nil {
		at.a.message("could not send %s: %s", count(len(line), "byte"), at.a.oneLine(err.Error(), 300))
	}
}

// cancel records the cancel durably, and does the work until the task has ended if no other process
// does. The log continues meanwhile.
func (at *attachment) cancel(ctx context.Context) error {
	return at.a.with(ctx, OpenOptions{Access: Writing}, func(eng Engine) error {
		if _, err := eng.Tasks().Cancel(ctx, at.id, operator, "Ctrl-C of attach"); err != nil {
			return err
		}
		at.a.message("cancel of %s recorded", at.id)
		return turnIsRunning(ctx, eng, func(ctx context.Context) error {
			_, err := awaitEnd(ctx, eng.Tasks(), at.id)
			return err
		})
	})
}

// lineEditor assembles lines from keys, and detects the keys that detach.
type lineEditor struct {
	echo         io.Writer
	line         []byte
	shown        int  // length of the echoed part of line: all but an incomplete character
	ctrlPPressed bool // the previous key was Ctrl-P
	// escaped is the last byte of an unfinished escape sequence, such as an arrow key: ESC or the
	// byte after it. Zero: none.
	escaped byte
}

// Keys with a meaning.
const (
	keyEnd    = 0x04 // Ctrl-D
	keyBack   = 0x08
	keyCtrlP  = 0x10
	keyCtrlQ  = 0x11
	keyClear  = 0x15 // Ctrl-U
	keyEscape = 0x1b
	keyDelete = 0x7f
)

// press handles one byte from the terminal. whole: the line is complete; leaves: the user detaches.
func (k *lineEditor) press(b byte) (line string, whole, leaves bool) {
	armed := k.ctrlPPressed
	k.ctrlPPressed = b == keyCtrlP
	if k.sequence(b) {
		return "", false, false
	}
	switch {
	case b == keyCtrlQ && armed, b == keyEnd && len(k.line) == 0:
		return "", false, true
	case b == '\n' || b == '\r':
		line, k.line, k.shown = string(k.line), nil, 0
		_, _ = io.WriteString(k.echo, "\n") // an error means that the terminal is gone
		return line, true, false
	case b == keyBack || b == keyDelete:
		_, size := utf8.DecodeLastRune(k.line)
		k.erase(len(k.line) - size)
	case b == keyClear:
		k.erase(0)
	case b >= 0x20 && len(k.line) < maxInput:
		k.line = append(k.line, b)
		if rest := k.line[k.shown:]; utf8.FullRune(rest) {
			_, _ = io.WriteString(k.echo, printable(string(rest))) // pasted text is data, too
			k.shown = len(k.line)
		}
	}
	return "", false, false
}

// erase removes everything after the first n bytes.
func (k *lineEditor) erase(n int) {
	if n < k.shown {
		_, _ = io.WriteString(k.echo, strings.Repeat("\b \b", columns(printable(string(k.line[n:k.shown])))))
	}
	k.line, k.shown = k.line[:n], min(k.shown, n)
}

// sequence reports whether a byte belongs to an escape sequence, none of which has a meaning here.
func (k *lineEditor) sequence(b byte) bool {
	before := k.escaped
	switch {
	case b == keyEscape:
		k.escaped = b
	case before == keyEscape && (b == '[' || b == 'O'):
		k.escaped = b
	case before == '[' && b >= 0x20 && b < 0x40: // parameters
	case before == keyEscape, before == 'O', before == '[' && b >= 0x40:
		k.escaped = 0
		return b >= 0x20 && b != keyDelete // Enter and other control keys keep their meaning
	default:
		k.escaped = 0
		return false
	}
	return true
}
