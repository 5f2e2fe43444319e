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
	Task       string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Tail       int    `help:"Begin with the last N lines of its log." placeholder:"N" default:"10"`
	ReadOnly   bool   `help:"Only show it: what is typed is not sent."`
	ExitStatus bool   `help:"Exit with 8 unless it succeeds."`
}

// Run shows what a task writes, and sends it what is typed. Leaving it never ends it (C7).
func (c *attachCommand) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error { // it does not matter who answers, and whether anybody works
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		at := &attached{a: a, eng: eng, id: t.ID, detach: make(chan struct{}), asked: make(chan struct{}, 1)}
		at.place = logPlace{id: t.ID}
		if at.place.offset, err = tailOffset(ctx, eng, t.ID, max(c.Tail, 0)); err != nil {
			return err
		}
		if !c.ReadOnly && !t.State.Terminal() {
			restore := at.listen(ctx)
			defer restore()
		}
		err = at.run(ctx)
		switch {
		case errors.Is(err, errDetached), errors.Is(err, errInterrupted):
			a.say("\ndetached from %s, which goes on; back to it: %s attach %s%s", t.ID, program, a.place(), t.ID)
			if errors.Is(err, errDetached) {
				return nil
			}
			return err
		case err != nil:
			return err
		}
		a.say("%s has ended: %s%s", at.last.ID, at.last.State, because(taskError(at.last)))
		if c.ExitStatus && at.last.State != perdure.TaskSucceeded {
			return &fault{code: exitFailed, what: fmt.Sprintf("%s has ended: %s", at.last.ID, at.last.State), todo: a.todo(at.last)}
		}
		return nil
	})
}

// errDetached ends an attach whose task goes on.
var errDetached = errors.New("detached")

// attached is a command that shows a task and speaks with it.
type attached struct {
	a     *app
	eng   Engine
	id    perdure.TaskID
	place logPlace
	last  perdure.Task  // as it was read last; only touched by whoever shows the log, and after it has ended
	said  string        // the question that was shown last, by its id; likewise
	echo  io.Writer     // where what is typed is shown; nil: stderr
	lines <-chan string // what is typed; nil: nothing is. Closed at the end of the input

	detach chan struct{} // closed when the keys say so
	leave  sync.Once     // closes detach
	// asked tells that Ctrl-C was pressed. Capacity 1: only the first one is told, and the second one leaves.
	asked chan struct{}
}

// listen begins to read what is typed, and takes Ctrl-C. The returned function gives the terminal back.
func (at *attached) listen(ctx context.Context) (restore func()) {
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
	stop := a.onCtrlC(func() bool {
		if pressed.Swap(true) {
			return false
		}
		at.asked <- struct{}{}
		return true
	})
	back, err := at.keys()
	if err != nil { // the keys come in lines, which the terminal itself echoes
		a.say("attached to %s; Ctrl-C leaves it; what you type is sent to it", at.id)
		at.lines = a.readLines(ctx)
		return stop
	}
	a.say("attached to %s; Ctrl-P Ctrl-Q leaves it; what you type is sent to it", at.id)
	at.lines = at.typed(ctx)
	return func() {
		stop()
		if err := back(); err != nil {
			a.say("the terminal could not be given back as it was: %s; type: stty sane", a.line(err.Error(), cellChars))
		}
	}
}

// keys lets keys come one by one. Unavailable: they do not, or there is no cursor to move in what is echoed (C3).
func (at *attached) keys() (back func() error, err error) {
	if at.a.Keys == nil || !at.a.Terminal.Stderr || at.a.Env("TERM") == "dumb" {
		return nil, perdure.Unavailable
	}
	return at.a.Keys()
}

// typed reads keys one by one. As that of readLines, its goroutine may wait for a terminal that says nothing, and is not
// waited for.
func (at *attached) typed(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() {
		in, keys := bufio.NewReader(at.a.stdin), keyboard{echo: at.a.Stderr}
		if at.echo != nil {
			keys.echo = at.echo
		}
		for {
			line, whole, leaves := "", false, true // the terminal has gone, which SIGHUP need not tell: it may be ignored, as below nohup
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

// run shows the log until the task has ended, and sends what is typed.
func (at *attached) run(ctx context.Context) error {
	var out io.Writer = at.a.out
	if at.a.Terminal.Stdout && !at.a.flags.Raw {
		safe := &plainWriter{w: at.a.out}
		defer safe.Close()
		out = safe
	}
	at.place.out = bytesOut{out}
	ctx, end := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer end(nil)
	shown := make(chan error, 1) // one answer, whether or not somebody waits for it
	group.Go(func() {
		shown <- at.a.follow(ctx, pollEvery, func() (bool, error) { return at.runOnce(ctx) })
	})
	asking := false // a line is the answer to what Ctrl-C asked
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

// isCancel reports whether a person means the end of the task. Whatever else is typed leaves it alone.
func isCancel(line string) bool {
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "c" || word == "cancel"
}

// runOnce writes what is new, and reports whether the task has ended.
func (at *attached) runOnce(ctx context.Context) (bool, error) {
	t, err := at.eng.Task(ctx, at.id)
	if err != nil {
		return false, fmt.Errorf("read task %s: %w", at.id, err)
	}
	at.last = t
	if at.place.offset, _, err = printLog(ctx, at.eng, at.place); err != nil {
		return false, err
	}
	if q := t.InputRequest; t.State == perdure.TaskAwaitingInput && q != nil && string(q.ID) != at.said {
		at.said = string(q.ID)
		at.a.say("it asks: %s", at.a.line(q.Prompt, 300))
		if q.Kind == questionOfApproval {
			at.a.say("  %s", at.a.approvalsOf(t))
		}
	}
	return t.State.Terminal(), nil
}

// send hands a line to the task: as the answer, if it asks something. What it does not take is told, and changes nothing.
func (at *attached) send(ctx context.Context, line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	err := at.a.with(ctx, Opening{Access: Writing}, func(eng Engine) error {
		t, err := eng.Task(ctx, at.id)
		if err != nil {
			return err
		}
		m := perdure.TaskMessage{Text: line, By: operator}
		if q := t.InputRequest; t.State == perdure.TaskAwaitingInput && q != nil && q.Kind != questionOfApproval {
			m = answerTo(*q, line)
		}
		_, err = eng.SendTask(ctx, at.id, m)
		return err
	})
	if err != nil && ctx.Err() == nil {
		at.a.say("%s was not sent: %s", count(len(line), "byte"), at.a.line(err.Error(), 300))
	}
}

// cancel makes the wish durable, and works until the task has ended where nobody else does. The log goes on meanwhile.
func (at *attached) cancel(ctx context.Context) error {
	return at.a.with(ctx, Opening{Access: Writing}, func(eng Engine) error {
		if _, err := eng.CancelTask(ctx, at.id, operator, "Ctrl-C of attach"); err != nil {
			return err
		}
		at.a.say("the wish to end %s is durable", at.id)
		return turning(ctx, eng, func(ctx context.Context) error {
			_, err := awaitEnd(ctx, eng, at.id)
			return err
		})
	})
}

// keyboard makes lines of keys, and knows those that leave.
type keyboard struct {
	echo  io.Writer
	line  []byte
	shown int  // how much of line was echoed: all but the beginning of a character
	armed bool // Ctrl-P was pressed just before
	// escaped is how far a key came that sends several bytes, as the arrows do: ESC, or ESC and what follows it. Zero: it is none.
	escaped byte
}

// The keys that mean something.
const (
	keyEnd    = 0x04 // Ctrl-D
	keyBack   = 0x08
	keyCtrlP  = 0x10
	keyCtrlQ  = 0x11
	keyClear  = 0x15 // Ctrl-U
	keyEscape = 0x1b
	keyDelete = 0x7f
)

// press takes one byte that came from the terminal. whole: line was typed to its end; leaves: the keys say to detach.
func (k *keyboard) press(b byte) (line string, whole, leaves bool) {
	armed := k.armed
	k.armed = b == keyCtrlP
	if k.sequence(b) {
		return "", false, false
	}
	switch {
	case b == keyCtrlQ && armed, b == keyEnd && len(k.line) == 0:
		return "", false, true
	case b == '\n' || b == '\r':
		line, k.line, k.shown = string(k.line), nil, 0
		_, _ = io.WriteString(k.echo, "\n") // a terminal that is gone shows nothing
		return line, true, false
	case b == keyBack || b == keyDelete:
		_, size := utf8.DecodeLastRune(k.line)
		k.erase(len(k.line) - size)
	case b == keyClear:
		k.erase(0)
	case b >= 0x20 && len(k.line) < maxInput:
		k.line = append(k.line, b)
		if rest := k.line[k.shown:]; utf8.FullRune(rest) {
			_, _ = io.WriteString(k.echo, plain(string(rest))) // what was pasted is data, too
			k.shown = len(k.line)
		}
	}
	return "", false, false
}

// erase takes what stands behind the first n bytes away.
func (k *keyboard) erase(n int) {
	if n < k.shown {
		_, _ = io.WriteString(k.echo, strings.Repeat("\b \b", columns(plain(string(k.line[n:k.shown])))))
	}
	k.line, k.shown = k.line[:n], min(k.shown, n)
}

// sequence reports whether a byte belongs to a key that sends several, none of which means anything here.
func (k *keyboard) sequence(b byte) bool {
	before := k.escaped
	switch {
	case b == keyEscape:
		k.escaped = b
	case before == keyEscape && (b == '[' || b == 'O'):
		k.escaped = b
	case before == '[' && b >= 0x20 && b < 0x40: // parameters
	case before == keyEscape, before == 'O', before == '[' && b >= 0x40:
		k.escaped = 0
		return b >= 0x20 && b != keyDelete // Enter and the like are keys of their own
	default:
		k.escaped = 0
		return false
	}
	return true
}
