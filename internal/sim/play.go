package sim

import (
	"context"
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/tool"
)

// Outcome is what became of a program.
type Outcome struct {
	Hash    string // of the trace
	Trace   []string
	Commits int // that wrote something
	Lives   int
	Took    time.Duration // virtual
	Broken  []chaos.Violation
}

// enough is how many broken promises end a program: the rest would only follow from them.
const enough = 12

// endless is how often the gate lets something through before a program is taken for one that never ends.
const endless = 20_000

// resting bounds the virtual time in which everything must come to rest once nobody asks for anything more (I4).
const resting = 20 * time.Minute

// Stage is what programs share: their tools. It is safe for concurrent use.
type Stage struct{ tools *tool.Registry }

// NewStage makes a stage. It is called outside of bubbles.
func NewStage() *Stage { return &Stage{tools: newTools()} }

// Play plays a program. It is called in a bubble of testing/synctest, whose root goroutine it keeps.
func (s *Stage) Play(p Program) Outcome {
	w := newWorld(p, s.tools)
	player := &player{w: w, due: time.Now()}
	if err := player.begin(); err != nil {
		w.wrong("", "", err.Error())
	}
	for player.phase != ended && len(w.broken) < enough && player.passes < endless {
		player.round()
	}
	if player.passes >= endless {
		w.wrong("I4", "", fmt.Sprintf("it goes round in circles: %d passes through the gate", player.passes))
	}
	player.leave()
	w.look()
	w.judge(player.phase != ended)
	return Outcome{
		Hash: w.trace.digest(), Trace: w.trace.lines, Commits: w.moved, Lives: len(w.lives), Took: time.Since(w.trace.began), Broken: w.broken,
	}
}

// phase is how far a program has come.
type phase int

const (
	stepping phase = iota // its own steps
	calming               // nothing goes wrong any more, and everything asked is answered
	placing               // every place is taken at once, so that none is lost
	closing               // and given back
	parting               // what waits for a turn comes home with one more message
	ended
)

// player lets one thing happen after another.
type player struct {
	w       *world
	phase   phase
	next    int       // step of the program
	due     time.Time // when it is due
	passes  int       // through the gate
	leaving *life     // was told to stop
	deeds   []deed    // of clients that take turns
	again   time.Time // when a client that was refused may ask once more
	limit   time.Time // of the phase
}

// begin starts the first engine and the sessions.
func (p *player) begin() error {
	w := p.w
	if err := w.start(); err != nil {
		return err
	}
	for n := range w.program.Sessions {
		id := perdure.SessionID(fmt.Sprintf("session_%032x", uint64(n)+1))
		w.ids = append(w.ids, id)
		w.views[id] = &view{fold: perdure.NewSession(id), journal: chaos.Journal{Session: id}}
	}
	return nil
}

// settled reports whether all sessions of the program exist. A client asks for one until it does.
func (p *player) settled() bool {
	w := p.w
	for _, id := range w.ids {
		if w.views[id].fold.Seq > 0 {
			continue
		}
		if p.quiet() && p.mayAsk() {
			w.ask(deed{name: "new " + string(id), do: func(ctx context.Context, eng engine.Engine) ([]chaos.Told, error) {
				_, err := eng.NewSessionAs(ctx, id, perdure.Agent{ClientTools: true, SerialCalls: w.program.Settings.Serial})
				return nil, err
			}})
		}
		return false
	}
	return true
}

// asksAgain is the virtual time between two tries of a client: an engine may refuse it, and needs time to end.
const asksAgain = 10 * time.Millisecond

// mayAsk reports whether a client may try now, and has it wait before the next time.
func (p *player) mayAsk() bool {
	now := time.Now()
	if now.Before(p.again) {
		return false
	}
	p.again = now.Add(asksAgain)
	return true
}

// round waits until everything is blocked, looks at what was committed, and lets one thing happen.
func (p *player) round() {
	w := p.w
	synctest.Wait()
	w.look()
	if p.buried() {
		return
	}
	best := p.best()
	if p.phase == stepping && p.step(best) {
		return
	}
	if best != nil {
		p.let(best)
		return
	}
	if p.quiet() && p.advance() {
		return
	}
	p.sleep()
}

// buried starts another engine where one has died or ended, and reports whether it did.
func (p *player) buried() bool {
	w := p.w
	l := w.life
	if l.doomed.Load() {
		l.kill()
	}
	if !l.isDead() && !l.hasEnded() {
		return false
	}
	if !l.isDead() && l != p.leaving && !errors.Is(l.err, perdure.Storage) {
		w.wrong("I4", "", fmt.Sprintf("engine %d ended by itself: %v", l.n, l.err))
	}
	if err := w.start(); err != nil {
		w.wrong("I4", "", err.Error())
	}
	return true
}

// rank says who goes first: the lowest.
func (w *world) rank(label string, n int) uint64 { return w.hash(label, n)>>1 | 1<<62 }

// best is what goes next: what has nothing to write, and then the lowest rank.
func (p *player) best() (best *item) {
	now := time.Now()
	for _, it := range p.w.gate.list() {
		if it.rank == 0 {
			p.w.probe(it)
			it.rank = p.w.rank(it.label, p.w.seen[it.label])
			if it.sort == commit && !it.moves {
				it.rank >>= 32 // it is no choice: it goes before everything that writes
			}
		}
		if it.sort == look {
			// How often somebody looks, and from when on, depends on whether two wake-ups came before the first was heard:
			// a look that waits is as good as one that comes now.
			it.rank = p.w.rank(it.label, p.w.moved)
		}
		if it.until.After(now) {
			continue
		}
		if best == nil || it.rank < best.rank {
			best = it
		}
	}
	return best
}

// step takes the next step of the program if it is due and its rank is lower than the best item's.
func (p *player) step(best *item) bool {
	w := p.w
	if p.next >= len(w.program.Steps) {
		return false
	}
	s := w.program.Steps[p.next]
	if p.due.After(time.Now()) || !p.settled() {
		return false
	}
	if best != nil && best.rank < w.rank("step", s.N) {
		return false
	}
	p.next++
	if p.next < len(w.program.Steps) {
		p.due = time.Now().Add(w.program.Steps[p.next].After)
	}
	w.judge(true) // of all that came of the steps before
	p.take(s)
	return true
}

// take takes one step.
func (p *player) take(s Step) {
	w := p.w
	switch s.Op {
	case Kill:
		w.note("step %d, kill", s.N)
		w.life.kill()
	case Stop:
		w.note("step %d, stop", s.N)
		p.leaving = w.life
		w.life.stop()
	default:
		if d, ok := w.deed(s); ok {
			w.note("%s", d.name)
			w.ask(d)
		}
	}
}

// let lets an item through, with what the program says of it.
func (p *player) let(it *item) {
	w := p.w
	p.passes++
	var ps pass
	if it.sort == commit && it.moves {
		if it.until.IsZero() {
			w.moved++
			ps.act = p.fault(w.moved)
		}
		if ps.act == Slow {
			if it.holds {
				it.until = time.Now().Add(time.Duration(w.hash(it.label, "slow")%200_000) * time.Microsecond)
				return
			}
			ps.act = ""
		}
		ps.pretend = !w.calm && w.program.Sabotage.pretends(it.label)
		w.note("commit %d %s: %s", w.moved, ps.act, it.label)
	}
	if it.sort == act {
		w.note("%s", it.label)
	}
	w.seen[it.label]++
	if w.gate.remove(it) {
		it.turn <- ps
	}
}

// fault is what goes wrong with the nth commit.
func (p *player) fault(n int) Act {
	if p.w.calm {
		return ""
	}
	for _, f := range p.w.program.Faults {
		if f.Commit == n {
			return f.Act
		}
	}
	return ""
}

// quiet reports whether nobody waits for anything at the gate, not even a client.
func (p *player) quiet() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.ops == 0 && len(p.w.gate.list()) == 0 && p.w.life != p.leaving
}

// sleep lets virtual time go on until something comes to the gate.
func (p *player) sleep() {
	wake := time.NewTimer(p.nap())
	defer wake.Stop()
	select {
	case <-p.w.gate.news:
	case <-wake.C:
	}
}

// nap is how long there is nothing to do but wait.
func (p *player) nap() time.Duration {
	d := time.Minute
	if left := time.Until(p.due); left > 0 && p.phase == stepping && p.next < len(p.w.program.Steps) {
		d = left
	}
	if left := time.Until(p.again); left > 0 {
		d = min(d, left)
	}
	for _, it := range p.w.gate.list() {
		d = min(d, time.Until(it.until))
	}
	return max(d, time.Nanosecond)
}

// leave ends the last engine and returns when all of them are gone.
func (p *player) leave() {
	w := p.w
	w.calm, p.next = true, len(w.program.Steps)
	select {
	case <-w.full:
	default:
		close(w.full)
	}
	for _, l := range w.lives {
		l.stop()
	}
	if p.phase != ended {
		w.life.kill()
	}
	for gone := false; !gone; {
		synctest.Wait()
		if best := p.best(); best != nil {
			p.let(best)
			continue
		}
		gone = w.ops == 0
		for _, l := range w.lives {
			gone = gone && l.hasEnded()
		}
		if !gone {
			p.sleep()
		}
	}
}
