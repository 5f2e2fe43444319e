package cli

import (
	"bufio"
	"context"
)

// typist reads what a person types, a line whenever one is wanted, and never ahead: an editor that is started between two lines
// has the terminal to itself. Its methods are called by one goroutine at a time.
type typist struct {
	want    chan struct{} // capacity 1: one line is read at a time
	lines   chan string   // closed at the end of the input
	reading bool          // a line is wanted and has not come yet
}

// typist begins to read what is typed, once it is wanted. The goroutine ends with the input or with ctx; a read that waits
// for a terminal can be ended by nobody, so it is not waited for.
func (a *app) typist(ctx context.Context) *typist {
	t := &typist{want: make(chan struct{}, 1), lines: make(chan string)}
	go func() {
		defer close(t.lines)
		in := bufio.NewScanner(a.stdin)
		in.Buffer(nil, maxInput)
		for {
			select {
			case <-t.want:
			case <-ctx.Done():
				return
			}
			if !in.Scan() {
				return
			}
			select {
			case t.lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return t
}

// next is where the next line comes from. Whoever receives it says so with took.
func (t *typist) next() <-chan string {
	if !t.reading {
		t.reading = true
		signal(t.want)
	}
	return t.lines
}

func (t *typist) took() { t.reading = false }

// early returns a line that was typed before anybody asked for it here; empty: none was.
func (t *typist) early() string {
	if !t.reading {
		return ""
	}
	select {
	case line := <-t.lines:
		t.took()
		return line
	default:
		return ""
	}
}
