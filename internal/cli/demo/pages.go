package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Pages is the web UI of a demo, which shows the same story while it happens. Its methods are those
// of Options, in one goroutine.
type Pages struct {
	Addr string        // host and port to listen on, which all processes of the demo use in turn
	Wait time.Duration // how long the story waits for a browser, and the pages for a reader
	// Link returns a one-time link to the server of a data directory.
	Link func(ctx context.Context, dir string) (string, error)
	// Open opens an address in the browser of the user; nil: there is none.
	Open  func(ctx context.Context, dir, address string) error
	Typed <-chan string // the user's lines; nil: there is no terminal
	Ended func()        // called after the report: from then on an interrupt only closes the pages

	signedIn bool
}

// browserPause is the pause between two looks for a browser.
const browserPause = 100 * time.Millisecond

// address returns where the processes of the demo listen for browsers; empty: nowhere.
func (d Options) address() string {
	if d.Pages == nil {
		return ""
	}
	return d.Pages.Addr
}

// watched reports whether a browser has signed in.
func (d Options) watched() bool { return d.Pages != nil && d.Pages.signedIn }

// say prints a line about the pages. The output of a program has none.
func (d Options) say(format string, args ...any) {
	out := d.Out
	if d.JSON {
		out = d.Stderr
	}
	fmt.Fprintf(out, format+"\n", args...)
}

// invite prints the link to the pages of a running server, and waits until a browser has signed in,
// the user presses Enter, or the time is up.
func (d Options) invite(ctx context.Context) error {
	p := d.Pages
	if p == nil {
		return nil
	}
	link, err := p.Link(ctx, d.dataFlag())
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d.say("in the browser: %s", link)
	if p.Open != nil {
		if err := p.Open(ctx, d.dataFlag(), link); err != nil {
			d.say("no browser was opened: open the link yourself")
		}
	}
	without := ""
	if p.Typed != nil {
		without = "; Enter begins without it"
	}
	if p.Wait > 0 {
		d.say("waiting %s for the browser%s", p.Wait, without)
	}
	return d.await(ctx, func(ctx context.Context) bool {
		eng, closer, err := d.Open(ctx, d.dataFlag())
		if err != nil {
			return false
		}
		defer closer.Close()
		tokens, err := eng.Tokens().List(ctx) // the directory is new: a token is that of a browser
		p.signedIn = err == nil && len(tokens) > 0
		return p.signedIn
	})
}

// await returns when found does, the user presses Enter, or the time is up. The error is the cause
// of ctx.
func (d Options) await(ctx context.Context, found func(context.Context) bool) error {
	late := time.NewTimer(d.Pages.Wait)
	defer late.Stop()
	tick := time.NewTicker(browserPause)
	defer tick.Stop()
	typed := d.Pages.Typed
	for !found(ctx) {
		select {
		case <-tick.C:
		case _, more := <-typed:
			if more {
				return nil
			}
			typed = nil // the input has ended, and the browser may still come
		case <-late.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stay serves the pages of a demo that has ended: on a terminal until the user presses Enter or
// Ctrl-C, otherwise for the time of Pages, if a browser has signed in.
func (d Options) stay(ctx context.Context, play Scenario) (err error) {
	p := d.Pages
	if p == nil || p.Typed == nil && !p.signedIn {
		return nil
	}
	p.Ended()
	_, end, err := d.OpenRuntime(ctx, RuntimeOptions{Dir: d.Dir, Scenario: play, Addr: p.Addr, Log: d.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if p.Typed == nil {
		d.say("the pages stay for %s", p.Wait)
		p.pass(ctx, p.Wait)
		return nil
	}
	d.say("the pages stay until you press Enter")
	p.pass(ctx, 0)
	return nil
}

// pass waits for a line of the user, the end of ctx, or a time; 0: no time.
func (p *Pages) pass(ctx context.Context, limit time.Duration) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	select {
	case <-p.Typed: // also when the input has ended
	case <-ctx.Done():
	}
}
