package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// advance continues when nothing waits: it answers open questions, and enters the next phase when
// all sessions are idle. It reports whether it did something.
func (p *player) advance() bool {
	w := p.w
	if p.phase == stepping {
		if !p.settled() || p.next < len(w.program.Steps) {
			return false
		}
		p.enter(finishing)
		w.calm = true
		if w.program.Settings.Heal {
			w.note("heal")
			for _, l := range w.running {
				l.kill()
			}
		}
		return true
	}
	if time.Now().After(p.limit) {
		if p.phase == placing {
			w.addViolation("I4", "", fmt.Sprintf("only %d of %d slots can be taken", w.occupiedSlots(), slotsPerSession*len(w.ids)))
		}
		p.phase = ended // NoStuck reports what is not idle
		return true
	}
	if len(p.operations) > 0 {
		w.ask(p.operations[0])
		p.operations = p.operations[1:]
		return true
	}
	if p.answer() {
		return true
	}
	if p.phase == placing && w.occupiedSlots() == slotsPerSession*len(w.ids) {
		close(w.full)
		p.enter(closing)
		return true
	}
	if p.phase == placing || !w.isIdle() || w.scheduler != nil && len(w.unfinished()) > 0 {
		return false
	}
	switch p.phase {
	case finishing:
		p.enter(placing)
		for i, id := range w.ids {
			var orders []string
			for n := range slotsPerSession {
				orders = append(orders, fmt.Sprintf("bg_fill#%d", 1000+i*slotsPerSession+n))
			}
			m := perdure.Text(strings.Join(orders, " "))
			p.later(operation{
				name: "fill " + string(id), do: w.send(id, perdure.MessageID(fmt.Sprintf("message_%032x", 2000+i)), m),
			})
		}
	case closing:
		p.enter(delivering)
		for i, id := range w.sessions() { // subagents too, because they may have ended before a delivery
			p.later(operation{name: "drain " + string(id),
				do: func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error) {
					_, err := eng.Tasks().Drain(ctx, id)
					return nil, err
				}})
			p.later(operation{
				name: "bye " + string(id),
				do:   w.send(id, perdure.MessageID(fmt.Sprintf("message_%032x", 1000+i)), perdure.Text("bye")),
			})
		}
	default:
		p.phase = ended
	}
	return true
}

// later queues an operation for a time when nobody waits for anything.
func (p *player) later(d operation) { p.operations = append(p.operations, d) }

// enter starts a phase.
func (p *player) enter(next phase) {
	p.phase, p.limit = next, time.Now().Add(idleLimit)
	if p.w.scheduler != nil { // whose passes and heartbeats would take long to simulate
		p.limit = time.Now().Add(hostsIdleLimit)
	}
}

// occupiedSlots returns the number of occupied slots.
func (w *world) occupiedSlots() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.filled)
}

// isIdle reports whether all sessions are idle and no tool is running. A tool that does not stop
// keeps its slot after its end was recorded (RC6).
func (w *world) isIdle() bool {
	for _, l := range w.live() {
		if l.jobs.Load() > 0 {
			return false
		}
	}
	for _, v := range w.views {
		if v.fold.Seq > 0 && !v.fold.AtRest() {
			return false
		}
	}
	return true
}

// answer answers one open question, if there is one.
func (p *player) answer() bool {
	w := p.w
	for _, id := range w.sessions() {
		v := w.views[id]
		n := len(v.journal.Events)
		for _, op := range []Op{Decide, Reply, Answer} {
			if op == Answer && v.fold.Turn == nil {
				continue
			}
			if d, ok := w.operationOn(id, Step{N: 3000 + n, Op: op, Pick: 0}); ok {
				if !p.mayAsk() {
					return false
				}
				w.note("%s", d.name)
				w.ask(d)
				return true
			}
		}
	}
	return false
}
