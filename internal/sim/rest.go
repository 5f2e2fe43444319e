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

// advance goes on when nothing waits: it answers what is asked, and enters the next phase when all sessions rest. It reports
// whether it did something.
func (p *player) advance() bool {
	w := p.w
	if p.phase == stepping {
		if !p.settled() || p.next < len(w.program.Steps) {
			return false
		}
		p.enter(calming)
		w.calm = true
		if w.program.Settings.Heal {
			w.note("heal")
			w.life.kill()
		}
		return true
	}
	if time.Now().After(p.limit) {
		if p.phase == placing {
			w.wrong("I4", "", fmt.Sprintf("%d of %d places can be taken", w.filled, places*len(w.ids)))
		}
		p.phase = ended // NoStuck says what does not rest
		return true
	}
	if len(p.deeds) > 0 {
		w.ask(p.deeds[0])
		p.deeds = p.deeds[1:]
		return true
	}
	if p.answer() {
		return true
	}
	if p.phase == placing && w.taken() == places*len(w.ids) {
		close(w.full)
		p.enter(closing)
		return true
	}
	if p.phase == placing || !w.rests() {
		return false
	}
	switch p.phase {
	case calming:
		p.enter(placing)
		for i, id := range w.ids {
			var orders []string
			for n := range places {
				orders = append(orders, fmt.Sprintf("bg_fill#%d", 1000+i*places+n))
			}
			m := perdure.Text(strings.Join(orders, " "))
			p.later(deed{name: "fill " + string(id), do: w.send(id, perdure.MessageID(fmt.Sprintf("message_%032x", 2000+i)), m)})
		}
	case closing:
		p.enter(parting)
		for i, id := range w.sessions() { // of subagents too: what they did not live to be told
			p.later(deed{name: "drain " + string(id), do: func(ctx context.Context, eng engine.Engine) ([]chaos.Told, error) {
				_, err := eng.DrainReady(ctx, id)
				return nil, err
			}})
			p.later(deed{name: "bye " + string(id), do: w.send(id, perdure.MessageID(fmt.Sprintf("message_%032x", 1000+i)), perdure.Text("bye"))})
		}
	default:
		p.phase = ended
	}
	return true
}

// later has a client do something when nobody waits for anything.
func (p *player) later(d deed) { p.deeds = append(p.deeds, d) }

// enter begins a phase.
func (p *player) enter(next phase) {
	p.phase, p.limit = next, time.Now().Add(resting)
}

// taken is how many places are held.
func (w *world) taken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.filled
}

// rests reports whether all sessions rest, and no tool is still there: one that does not stop keeps its place after its end
// was recorded (RC6).
func (w *world) rests() bool {
	if w.life.jobs.Load() > 0 {
		return false
	}
	for _, v := range w.views {
		if v.fold.Seq > 0 && !v.fold.AtRest() {
			return false
		}
	}
	return true
}

// answer answers one thing that is asked, if there is one.
func (p *player) answer() bool {
	w := p.w
	for _, id := range w.sessions() {
		v := w.views[id]
		n := len(v.journal.Events)
		for _, op := range []Op{Decide, Reply, Answer} {
			if op == Answer && v.fold.Turn == nil {
				continue
			}
			if d, ok := w.deedOf(id, Step{N: 3000 + n, Op: op, Pick: 0}); ok {
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
