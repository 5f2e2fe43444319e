package cli

import (
	"bufio"
	"context"
)

// inputReader reads what the user types, one line at a time and never ahead, so that an editor that
// is started between two lines has the terminal to itself. Its methods are called by one goroutine
// at a time.
type inputReader struct {
	want    chan struct{} // capacity 1: one line is read at a time
	lines   chan string   // closed at the end of the input
	reading bool          // a line was requested and has not arrived yet
}

// inputReader reads a line from stdin whenever one is requested. The goroutine ends with the input
// or with ctx. A read from a terminal cannot be canceled, so nobody waits for the goroutine.
func (a *app) inputReader(ctx context.Context) *inputReader {
	t := &inputReader{want: make(chan struct{}, 1), lines: make(chan string)}
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

// next returns the channel of the next line. The receiver then calls took.
func (t *inputReader) next() <-chan string {
	if !t.reading {
		t.reading = true
		signal(t.want)
	}
	return t.lines
}

func (t *inputReader) received() { t.reading = false }

// pending returns a line that was typed before it was asked for here; empty: there is none.
func (t *inputReader) pending() string {
	if !t.reading {
		return ""
	}
	select {
	case line := <-t.lines:
		t.received()
		return line
	default:
		return ""
	}
}
