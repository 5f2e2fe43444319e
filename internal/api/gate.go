package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// gate lets so many in at a time, and lets so many more wait for a moment. Principals who wait take turns, each of them in the order
// in which their requests came, so that one who asks for much costs another one little (R22). While requests are refused there is
// an overload, in which a place is never free for long: then each waits for a hurry of the patience only, and as much shorter a line
// is enough, so that who comes in is still done in good time and does not come in to be late (R23): who waits costs those in work
// their time, as the garbage collector looks through each stack. It is safe for concurrent use and has no goroutines of its own.
type gate struct {
	name     string
	places   int
	most     int // who may wait
	patience time.Duration

	mu      sync.Mutex
	in      int                  // guarded by mu, as are the fields below
	waiting int                  // in all lines
	refused time.Time            // when somebody was refused last
	lines   map[string][]*waiter // by principal; none is empty
	turns   []string             // whose line comes next: the keys of lines
}

// waiter is a request that waits. told has a capacity of 1: nil for a place, or the refusal.
type waiter struct{ told chan error }

// hurry is the part of the patience, and of the line, that is left in an overload.
const hurry = 4

func newGate(name string, places, waiting int, patience time.Duration) *gate {
	return &gate{name: name, places: places, most: waiting, patience: patience, lines: map[string][]*waiter{}}
}

// full reports whether enter would refuse a principal now, who then is refused.
func (g *gate) full(who string) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	full := g.in >= g.places && g.waiting >= g.line(g.overrun(now)) && g.longer(who) == ""
	if full {
		g.refused = now
	}
	return full
}

// overrun reports whether there is an overload. The lock is held, here and in line.
func (g *gate) overrun(now time.Time) bool { return now.Sub(g.refused) < g.patience }

// line is how many may wait.
func (g *gate) line(overrun bool) int {
	if overrun {
		return (g.most + hurry - 1) / hurry
	}
	return g.most
}

// longer is who waits with so many more requests than a principal that one of them has to make room for theirs; empty: nobody.
// The lock is held.
func (g *gate) longer(who string) string {
	longest, most := "", len(g.lines[who])+1
	for other, line := range g.lines {
		if len(line) > most {
			longest, most = other, len(line)
		}
	}
	return longest
}

// enter takes a place for a principal, which leave gives back. The error is the refusal, or that of ctx.
func (g *gate) enter(ctx context.Context, who string) error {
	if g == nil {
		return nil
	}
	w, patience, err := g.stand(who)
	if w == nil {
		return err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-w.told:
		return err
	case <-late.C:
		err = g.refusal()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if g.drop(who, w, ctx.Err() == nil) {
		return err
	}
	if told := <-w.told; told != nil || ctx.Err() == nil {
		return told // it was told just now
	}
	g.leave()
	return err
}

// stand takes a place, or a place in the line: then who waits is returned, and for how long.
func (g *gate) stand(who string) (_ *waiter, patience time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in < g.places { // then nobody waits
		g.in++
		return nil, 0, nil
	}
	now := time.Now()
	overrun := g.overrun(now)
	if patience = g.patience; overrun {
		patience /= hurry
	}
	if g.waiting >= g.line(overrun) {
		g.refused = now
		other := g.longer(who)
		if other == "" {
			return nil, 0, g.refusal()
		}
		line := g.lines[other]
		last := line[len(line)-1] // who has waited least
		g.remove(other, len(line)-1)
		last.told <- g.refusal()
	}
	w := &waiter{told: make(chan error, 1)}
	if len(g.lines[who]) == 0 {
		g.turns = append(g.turns, who)
	}
	g.lines[who] = append(g.lines[who], w)
	g.waiting++
	return w, patience, nil
}

// drop takes one who waits out of the line, who is refused or has gone. Not ok: they were told something.
func (g *gate) drop(who string, w *waiter, refused bool) (ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.lines[who], w)
	if i < 0 {
		return false
	}
	g.remove(who, i)
	if refused {
		g.refused = time.Now()
	}
	return true
}

// remove takes one who waits out of a line. The lock is held.
func (g *gate) remove(who string, i int) {
	g.waiting--
	if g.lines[who] = slices.Delete(g.lines[who], i, i+1); len(g.lines[who]) > 0 {
		return
	}
	delete(g.lines, who)
	if at := slices.Index(g.turns, who); at >= 0 {
		g.turns = slices.Delete(g.turns, at, at+1)
	}
}

// leave gives a place back: to who comes next, if somebody waits.
func (g *gate) leave() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == 0 {
		g.in--
		return
	}
	who := g.turns[0]
	next := g.lines[who][0]
	g.turns = append(slices.Delete(g.turns, 0, 1), who)
	g.remove(who, 0)
	next.told <- nil
}

// refusal says that the gate is full (H10). How long to stay away is for the client to spread: Retry-After is the least.
func (g *gate) refusal() error {
	return &Problem{
		Status: http.StatusServiceUnavailable, Code: "overloaded", Title: "Overloaded", Retryable: true,
		Detail: fmt.Sprintf("more is asked for than can be done: %d %s are in work, and enough wait; nothing was done of this. Send it again, later", g.places, g.name),
		header: http.Header{
			"Ratelimit-Policy": {strconv.Quote(g.name) + ";q=" + strconv.Itoa(g.places) + `;qu="concurrent-requests"`},
			"Ratelimit":        {strconv.Quote(g.name) + ";r=0;t=1"},
		},
	}
}
