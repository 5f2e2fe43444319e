package host

import (
	"maps"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// The limits of the costs in lists.
const (
	maxSpendEvents   = 4000   // that one list reads for the costs of its sessions
	maxSpendSessions = 50_000 // whose sums are kept
)

// spending keeps what sessions have cost. The costs of a list are read from the journals, and a
// process reads each event once: a sum is kept with the seq up to which it was read, and continues
// from there. A list reads what is new in its sessions, and of long journals that the process does
// not know yet a part at a time; until a sum is complete, the cost of its session is nil.
type spending struct {
	mu   sync.Mutex
	sums map[perdure.SessionID]spent // guarded by mu
}

// spent is the sum of a journal up to an event. It is never modified.
type spent struct {
	seq            int64
	requestedModel string
	total          engine.CostLine
}

// list adds the costs to sessions of a list.
func (p *spending) list(e *Host, r store.Reader, all []engine.Session) error {
	left := maxSpendEvents
	for i := range all {
		sum, err := p.read(e, r, all[i], &left)
		if err != nil {
			return err
		}
		if sum.seq >= all[i].LastSeq {
			all[i].Cost = &engine.Cost{Amounts: maps.Clone(sum.total.Cost), Unpriced: sum.total.Unpriced}
		}
	}
	return nil
}

// read continues the sum of a session, and reads no more events than are left.
func (p *spending) read(e *Host, r store.Reader, s engine.Session, left *int) (spent, error) {
	p.mu.Lock()
	sum := p.sums[s.ID]
	p.mu.Unlock()
	if sum.seq > s.LastSeq { // another session was imported under the same id
		sum = spent{}
	}
	if sum.seq == s.LastSeq || *left <= 0 {
		return sum, nil
	}
	t := tally{
		meter: e.meter, prices: e.meter.Prices(), lines: map[costKey]*engine.CostLine{},
		requestedModel: sum.requestedModel, total: sum.total,
		startedBy: turnSchedule{scheduleOf: map[string]perdure.ScheduleID{}},
	}
	t.total.Cost = map[budget.Currency]budget.Amount{}
	maps.Copy(t.total.Cost, sum.total.Cost)
	for sum.seq < s.LastSeq && *left > 0 {
		events, err := r.Journal().Events(s.ID, sum.seq, min(*left, store.Page))
		if err != nil || len(events) == 0 {
			return sum, err
		}
		for _, event := range events {
			t.add(event)
		}
		*left -= len(events)
		sum.seq = events[len(events)-1].Seq
	}
	t.total.Models = nil // unbounded, and not shown
	sum.requestedModel, sum.total = t.requestedModel, t.total
	p.keep(s.ID, sum)
	return sum, nil
}

// keep keeps a sum. When there are too many, any others are dropped.
func (p *spending) keep(id perdure.SessionID, sum spent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sums == nil {
		p.sums = map[perdure.SessionID]spent{}
	}
	for other := range p.sums {
		if len(p.sums) < maxSpendSessions {
			break
		}
		delete(p.sums, other)
	}
	p.sums[id] = sum
}
