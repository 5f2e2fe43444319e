package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/tool"
)

// Outcome is the result of a program.
type Outcome struct {
	Hash    string // of the trace
	Trace   []string
	Commits int           // with a significant write
	Engines int           // engines
	Took    time.Duration // virtual time
	Broken  []chaos.Violation
}

// maxViolations is the number of violations that end a program, because more would only be
// consequences.
const maxViolations = 12

// manySteps is the number of steps from which on the invariants are not checked before each of
// them, but so many times.
const manySteps = 50

// maxPasses is the number of passes after which a program counts as one that never ends.
const maxPasses = 20_000

// idleLimit limits the virtual time in which everything must become idle once nobody requests
// anything more (I4).
const idleLimit = 20 * time.Minute

// hostsIdleLimit is idleLimit for several hosts, and much longer than their leases.
const hostsIdleLimit = 2 * time.Minute

// Stage holds what programs share: their tools. It is safe for concurrent use.
type Stage struct{ tools *tool.Registry }

// NewStage creates a stage. It is called outside bubbles.
func NewStage() *Stage { return &Stage{tools: newTools()} }

// Play runs a program. It is called in a bubble of testing/synctest, and uses the bubble's root
// goroutine.
func (s *Stage) Play(p Program) Outcome {
	w := newWorld(p, s.tools)
	player := &player{w: w, due: time.Now()}
	if err := player.begin(); err != nil {
		w.addViolation("", "", err.Error())
	}
	for player.phase != ended && len(w.broken) < maxViolations && player.passes < player.most() {
		player.round()
	}
	if player.passes >= player.most() {
		w.addViolation("I4", "", fmt.Sprintf("no progress after %d passes through the gate", player.passes))
	}
	if w.scheduler != nil && player.phase == ended {
		for _, text := range w.unfinished() {
			w.addViolation("GR4", "", text)
		}
	}
	player.leave()
	w.readCommits()
	w.checkInvariants(player.phase != ended)
	return Outcome{
		Hash: w.trace.digest(), Trace: w.trace.lines, Commits: w.writeCommits, Engines: len(w.processes),
		Took: time.Since(w.trace.began), Broken: w.broken,
	}
}

// most returns the number of passes after which the program counts as one that never ends.
func (p *player) most() int { return maxPasses * max(p.w.program.Sessions/10, p.w.program.Hosts, 1) }

// phase is the progress of a program.
type phase int

const (
	stepping   phase = iota // runs its steps
	finishing               // no more faults; every open question is answered
	placing                 // takes every slot at once, to find lost ones
	closing                 // releases the slots
	delivering              // sends one more message, with which waiting results are delivered
	ended
)

// player runs a program, one action at a time.
type player struct {
	w          *world
	phase      phase
	next       int         // the next step of the program
	due        time.Time   // when that step is due
	passes     int         // through the gate
	operations []operation // operations that wait for their turn
	again      time.Time   // when a refused client may try again
	limit      time.Time   // of the phase
}

// begin starts the first engine and sets up the sessions.
func (p *player) begin() error {
	w := p.w
	for host := range w.running {
		if err := w.start(host); err != nil {
			return err
		}
		synctest.Wait() // one after another
	}
	for n := range w.program.Sessions {
		id := perdure.SessionID(fmt.Sprintf("session_%032x", uint64(n)+1))
		w.ids = append(w.ids, id)
		w.views[id] = &view{fold: perdure.NewSession(id), journal: chaos.Journal{Session: id}}
	}
	return nil
}

// settled reports whether all sessions of the program exist. A client requests each one until it
// does.
func (p *player) settled() bool {
	w := p.w
	for _, id := range w.ids {
		if w.views[id].fold.Seq > 0 {
			continue
		}
		if p.quiet() && p.mayAsk() {
			w.ask(operation{name: "new " + string(id),
				do: func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error) {
					_, err := eng.Sessions().CreateAs(ctx, id, perdure.Agent{
						ClientTools: true, SerialCalls: w.program.Settings.Serial,
					})
					return nil, err
				}})
		}
		return false
	}
	return true
}

// retryInterval is the virtual time between two attempts of a client: an engine may refuse it, and
// needs time to end.
const retryInterval = 10 * time.Millisecond

// mayAsk reports whether a client may try now, and delays its next attempt.
func (p *player) mayAsk() bool {
	now := time.Now()
	if now.Before(p.again) {
		return false
	}
	p.again = now.Add(retryInterval)
	return true
}

// round waits until everything is blocked, reads what was committed, and lets one action happen.
func (p *player) round() {
	w := p.w
	synctest.Wait()
	w.readCommits()
	for host := range w.running {
		if p.restartIfDead(host) {
			return
		}
	}
	if w.scheduler != nil {
		w.scheduler.collect()
	}
	best := p.best()
	if p.phase == stepping && p.step(best) {
		return
	}
	if w.scheduler != nil && w.scheduler.act(best) {
		return
	}
	if best != nil {
		p.letPass(best)
		return
	}
	if p.quiet() && p.advance() {
		return
	}
	p.sleep()
}

// restartIfDead starts another engine of a host if the last one has died or ended, and reports
// whether it did. Where there are other hosts, that takes a while.
func (p *player) restartIfDead(host int) bool {
	w := p.w
	l := w.running[host]
	if l.doomed.Load() {
		l.kill()
	}
	if !l.isGone() {
		return false
	}
	if l.next.IsZero() {
		if !l.isDead() && !l.leaving && !errors.Is(l.err, perdure.Storage) {
			w.addViolation("I4", "", fmt.Sprintf("engine %d ended by itself: %v", l.n, l.err))
		}
		l.next = time.Now()
		if w.scheduler != nil {
			l.next = l.next.Add(time.Duration(w.hash("next", l.n)%4_000_000) * time.Microsecond)
		}
	}
	if l.next.After(time.Now()) && len(w.live()) > 0 {
		return false
	}
	if err := w.start(host); err != nil {
		w.addViolation("I4", "", err.Error())
	}
	return true
}

// rank returns the rank of an action; the lowest goes first.
func (w *world) rank(label string, n int) uint64 { return w.hash(label, n)>>1 | 1<<62 }

// best returns the item that passes next: first items that write nothing, then the lowest rank.
func (p *player) best() (best *item) {
	now := time.Now()
	for _, it := range p.w.gate.list() {
		if it.rank == 0 {
			p.w.probe(it)
			it.rank = p.w.rank(it.label, p.w.seen[it.label])
			if it.sort == commit && !it.writes {
				it.rank >>= 32 // not a choice: it goes before everything that writes
			}
		}
		if it.sort == look {
			// How often and from when on a goroutine reads depends on whether two wake-ups were
			// merged, so a waiting view must rank the same as one that arrives now.
			it.rank = p.w.rank(it.label, p.w.writeCommits)
		}
		if it.until.After(now) || it.life.frozen.After(now) {
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
	if n := len(w.program.Steps); n < manySteps || p.next%(n/manySteps) == 0 { // it reads everything
		w.checkInvariants(true) // covers everything caused by the steps before
	}
	p.run(s)
	return true
}

// run runs one step.
func (p *player) run(s Step) {
	w := p.w
	switch s.Op {
	case Kill:
		w.note("step %d, kill", s.N)
		if l := w.chosen(s.N); l != nil {
			l.kill()
		}
	case Stop:
		w.note("step %d, stop", s.N)
		if l := w.chosen(s.N); l != nil {
			l.leaving = true
			l.stop()
		}
	default:
		if d, ok := w.operation(s); ok {
			w.note("%s", d.name)
			w.ask(d)
		}
	}
}

// letPass lets an item pass, with the fault that the program has for it.
func (p *player) letPass(it *item) {
	w := p.w
	p.passes++
	var ps pass
	if it.sort == commit && it.writes {
		if it.until.IsZero() {
			w.writeCommits++
			ps.act = p.fault(w.writeCommits)
		}
		if ps.act == Slow {
			if it.mayDelay {
				it.until = time.Now().Add(time.Duration(w.hash(it.label, "slow")%200_000) * time.Microsecond)
				return
			}
			ps.act = ""
		}
		if w.scheduler != nil && slices.Contains(freezes, ps.act) {
			p.freeze(it, ps.act)
			if ps.act == FreezeBefore {
				return
			}
			ps.act = ""
		}
		ps.pretend = !w.calm && w.program.Sabotage.pretends(it.label)
		w.note("commit %d %s: %s", w.writeCommits, ps.act, it.label)
	}
	if it.sort == act {
		w.note("%s", it.label)
	}
	w.seen[it.label]++
	if w.gate.remove(it) {
		it.turn <- ps
	}
}

// freeze stops the host of an item, for a time after which its lease is still valid, or for much
// longer.
func (p *player) freeze(it *item, how Act) {
	w, l := p.w, it.life
	d := time.Duration(w.hash(w.writeCommits, "frozen")%5_000_000) * time.Microsecond
	w.note("commit %d %s for %s: %s", w.writeCommits, how, d, it.label)
	l.frozen = time.Now().Add(d)
	if how == FreezeBefore {
		it.until = l.frozen
	}
}

// fault returns the fault at the nth commit.
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

// quiet reports whether nothing waits at the gate, no client waits for an answer, and no engine is
// ending. Frozen hosts do not count.
func (p *player) quiet() bool {
	for _, it := range p.w.gate.list() {
		if !it.life.isFrozen() {
			return false
		}
	}
	for _, l := range p.w.live() {
		if l.leaving && !l.isFrozen() {
			return false
		}
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.ops == 0
}

// sleep lets virtual time pass until something arrives at the gate.
func (p *player) sleep() {
	wake := time.NewTimer(p.nap())
	defer wake.Stop()
	select {
	case <-p.w.gate.news:
	case <-wake.C:
	}
}

// nap returns how long there is nothing to do.
func (p *player) nap() time.Duration {
	d := time.Minute
	if left := time.Until(p.due); left > 0 && p.phase == stepping && p.next < len(p.w.program.Steps) {
		d = left
	}
	if left := time.Until(p.again); left > 0 {
		d = min(d, left)
	}
	for _, it := range p.w.gate.list() {
		d = min(d, max(time.Until(it.until), time.Until(it.life.frozen)))
	}
	for _, l := range p.w.running {
		if l.isGone() {
			d = min(d, time.Until(l.next))
		}
	}
	if p.w.scheduler != nil {
		d = min(d, p.w.scheduler.nap())
	}
	return max(d, time.Nanosecond)
}

// leave ends the last engine and returns when all engines have ended.
func (p *player) leave() {
	w := p.w
	w.calm, p.next = true, len(w.program.Steps)
	select {
	case <-w.full:
	default:
		close(w.full)
	}
	for _, l := range w.processes {
		l.stop()
		l.endWork()
		l.frozen = time.Time{}
	}
	if p.phase != ended {
		for _, l := range w.running {
			l.kill()
		}
	}
	w.running = nil // nothing starts again
	if w.scheduler != nil {
		w.scheduler.plans = nil
	}
	for gone := false; !gone; {
		synctest.Wait()
		if best := p.best(); best != nil {
			p.letPass(best)
			continue
		}
		gone = w.ops == 0 && (w.scheduler == nil || w.scheduler.idle())
		for _, l := range w.processes {
			gone = gone && l.hasEnded()
		}
		if !gone {
			p.sleep()
		}
	}
}
