package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/store"
)

// scheduler gives out the work of several hosts in every way that the engines must bear: it forgets
// what it receives, gives grants late, out of order, twice and to two hosts at once, uses grants
// that are stale, evicts owners that are alive, and takes work back. What it forgets it finds again
// in the lists of what is due. The seed decides, so it does nothing by itself: the player carries
// out its plans, and collects what it has received while everything is blocked.
type scheduler struct {
	w *world

	mu      sync.Mutex
	woken   map[perdure.SessionID]bool // guarded by mu
	queued  bool                       // guarded by mu; queued runs may start
	answers []answered                 // guarded by mu
	calls   int                        // guarded by mu; that have not returned

	grants  map[store.Work]int64 // the last one that was given out; this and the following fields are only touched by the player
	refused map[store.Work]int   // how often its owner was alive since the last eviction
	plans   []*plan
	known   map[string]bool // the labels of all plans
}

// plan is something that the scheduler will do.
type plan struct {
	label string
	at    time.Time
	do    func()
}

// answered is what a call to an engine has returned.
type answered struct {
	label string
	do    func() // what follows from it; only called by the player
}

// outsideScheduler is the scheduler as one engine sees it.
type outsideScheduler struct {
	*scheduler
	l *process
}

// Name is the name of a scheduler on Temporal.
func (outsideScheduler) Name() string { return "temporal:simulation/hosts" }

// Wake notes that a session has unread events.
func (s outsideScheduler) Wake(id perdure.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.l.isDead() {
		s.woken[id] = true
	}
}

// StartQueued notes that queued runs may start.
func (s outsideScheduler) StartQueued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.l.isDead() {
		s.queued = true
	}
}

func newScheduler(w *world) *scheduler {
	s := &scheduler{w: w, woken: map[perdure.SessionID]bool{}, grants: map[store.Work]int64{}, refused: map[store.Work]int{}, known: map[string]bool{}}
	s.planLists()
	s.planTidy()
	return s
}

// The intervals at which the scheduler asks for what is due, and has an engine tidy up.
const (
	listInterval = 300 * time.Millisecond
	tidyInterval = 700 * time.Millisecond
)

// patience is the number of refusals after which the owner of a work is evicted. It may have given
// the work up, which no other host can know.
const patience = 4

// listTimeout ends a call that only reads, for example to a frozen host.
const listTimeout = time.Second

// plan plans something, once for each label.
func (s *scheduler) plan(label string, after time.Duration, do func()) {
	if !s.known[label] {
		s.known[label] = true
		s.plans = append(s.plans, &plan{label: label, at: time.Now().Add(after), do: do})
	}
}

// act carries out the plan that is due with the lowest rank, unless best ranks lower, and reports
// whether it did.
func (s *scheduler) act(best *item) bool {
	var first *plan
	for _, p := range s.plans {
		if !p.at.After(time.Now()) && (first == nil || s.w.rank(p.label, 0) < s.w.rank(first.label, 0)) {
			first = p
		}
	}
	if first == nil || best != nil && best.rank < s.w.rank(first.label, 0) {
		return false
	}
	s.plans = slices.DeleteFunc(s.plans, func(p *plan) bool { return p == first })
	first.do()
	return true
}

// nap returns how long no plan is due.
func (s *scheduler) nap() time.Duration {
	d := time.Minute
	for _, p := range s.plans {
		d = min(d, time.Until(p.at))
	}
	return d
}

// idle reports whether no call to an engine is open.
func (s *scheduler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls == 0
}

// call calls an engine in a goroutine. do returns what follows.
func (s *scheduler) call(ctx context.Context, label string, do func(context.Context) func()) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	go func() {
		next := do(ctx)
		s.mu.Lock()
		defer s.w.gate.ring()
		defer s.mu.Unlock()
		s.calls--
		s.answers = append(s.answers, answered{label, next})
	}()
}

// collect plans what follows from what engines have said since the last time.
func (s *scheduler) collect() {
	s.mu.Lock()
	woken, queued, answers := slices.Sorted(maps.Keys(s.woken)), s.queued, s.answers
	s.woken, s.queued, s.answers = map[perdure.SessionID]bool{}, false, nil
	s.mu.Unlock()
	for _, id := range woken {
		if !s.forgets("wake", id) {
			s.give(store.Work{Session: id})
		}
	}
	if queued && !s.forgets("queued") {
		n := s.w.writeCommits
		label := fmt.Sprintf("list queued runs after commit %d", n)
		s.plan(label, s.delay(label), func() { s.list(label, false) })
	}
	slices.SortStableFunc(answers, func(a, b answered) int { return cmp.Compare(a.label, b.label) })
	for _, a := range answers {
		a.do()
	}
}

// forgets reports whether the scheduler forgets what it has just received.
func (s *scheduler) forgets(about ...any) bool {
	return s.w.hash(append(about, s.w.writeCommits, "forget")...)%3 == 0
}

// delay is mostly short, and sometimes long enough for later events to come first.
func (s *scheduler) delay(label string) time.Duration {
	most := uint64(3_000)
	if s.w.hash(label, "late")%6 == 0 {
		most = 3_000_000
	}
	return time.Duration(s.w.hash(label, "delay")%most) * time.Microsecond
}

// give plans one or two grants of a work. Each may be used by two hosts at once, and again when it
// is stale.
func (s *scheduler) give(work store.Work) {
	about := fmt.Sprintf("%s%s after commit %d", work.Session, work.Task, s.w.writeCommits)
	if s.known[about] {
		return
	}
	s.known[about] = true
	for range 1 + s.w.hash(about, "grants")%2 {
		s.grants[work]++
		g := host.Grant{Number: s.grants[work]}
		label := fmt.Sprintf("grant %d of %s", g.Number, about)
		g.Evict = !s.w.calm && s.w.hash(label, "evict")%8 == 0 || s.refused[work] >= patience
		if g.Evict {
			s.refused[work] = 0
		}
		s.plan(label, s.delay(label), func() { s.use(label, work, g) })
		if s.w.hash(label, "twice")%3 == 0 {
			again := label + " again"
			s.plan(again, s.delay(label)+time.Duration(s.w.hash(again)%900)*time.Microsecond, func() { s.use(again, work, g) })
		}
		if s.w.hash(label, "stale")%3 == 0 {
			stale := label + " when it may be stale"
			s.plan(stale, s.delay(label)+time.Duration(s.w.hash(stale)%2_000_000)*time.Microsecond, func() { s.use(stale, work, g) })
		}
	}
}

// use has a host work under a grant.
func (s *scheduler) use(label string, work store.Work, g host.Grant) {
	l := s.w.chosen(label)
	if l == nil {
		return
	}
	s.w.note("%s%s, evict %t", l.prefix(), label, g.Evict)
	ctx, stop := context.WithCancel(l.work)
	if !s.w.calm && s.w.hash(label, "take back")%6 == 0 {
		ctx, stop = context.WithTimeout(l.work, time.Duration(1+s.w.hash(label, "time")%900_000)*time.Microsecond)
	}
	s.call(ctx, label, func(ctx context.Context) func() {
		defer stop()
		var left host.Left
		var err error
		if work.Task == "" {
			left, err = l.granted.Drive(ctx, work.Session, g)
		} else {
			left, err = l.granted.RunTask(ctx, work.Task, g)
		}
		return func() {
			s.heard(work, left.Grant)
			if left.Present {
				s.refused[work]++
			}
			if host.Permanent(err) && ctx.Err() == nil {
				s.w.addViolation("I4", work.Session, fmt.Sprintf("%s: %v", label, err))
			}
		}
	})
}

// heard notes the number of a grant that was used.
func (s *scheduler) heard(work store.Work, number int64) {
	s.grants[work] = max(s.grants[work], number)
}

// planLists plans the next list of all that is due.
func (s *scheduler) planLists() {
	label := fmt.Sprintf("list what is due at %s", time.Since(s.w.trace.began))
	s.plan(label, listInterval, func() { s.list(label, true) })
}

// list asks a host for what is due, of everything or only queued runs, and gives it out, though not
// all of it.
func (s *scheduler) list(label string, all bool) {
	again := func() {
		if all {
			s.planLists()
		}
	}
	l := s.w.chosen(label)
	if l == nil || s.w.program.Sabotage == ForgetDue {
		again()
		return
	}
	ctx, stop := context.WithTimeout(l.work, listTimeout)
	s.call(ctx, label, func(ctx context.Context) func() {
		defer stop()
		var found host.Waiting
		if all {
			found = s.pages(ctx, l, label)
		} else {
			found.Runs, _ = l.granted.DueRuns(ctx, "") // the list of all comes soon
		}
		return func() {
			s.giveListed(found)
			again()
		}
	})
}

// pages reads the list of all that is due, page by page.
func (s *scheduler) pages(ctx context.Context, l *process, label string) (all host.Waiting) {
	for {
		page, err := l.granted.Due(ctx, all.Next, 1+int(s.w.hash(label, "limit")%5))
		if err != nil {
			return all
		}
		all.Sessions, all.Runs, all.Next = append(all.Sessions, page.Sessions...), append(all.Runs, page.Runs...), page.Next
		if all.Next == "" {
			return all
		}
	}
}

func (s *scheduler) giveListed(found host.Waiting) {
	for _, session := range found.Sessions {
		work := store.Work{Session: session.ID}
		if s.heard(work, session.Grant); !s.forgets("due", session.ID) {
			s.give(work)
		}
	}
	for _, run := range found.Runs {
		work := store.Work{Task: run.ID}
		if s.heard(work, run.Grant); !s.forgets("due", run.ID) {
			s.give(work)
		}
	}
}

// planTidy plans the next pass over what belongs to no grant.
func (s *scheduler) planTidy() {
	label := fmt.Sprintf("tidy up at %s", time.Since(s.w.trace.began))
	s.plan(label, tidyInterval, func() {
		l := s.w.chosen(label)
		if l == nil {
			s.planTidy()
			return
		}
		ctx, stop := context.WithTimeout(l.work, listTimeout)
		s.call(ctx, label, func(ctx context.Context) func() {
			defer stop()
			_ = l.granted.Tidy(ctx) // the next pass tries again
			return s.planTidy
		})
	})
}

// unfinished says which sessions still wait for the scheduler, or have a driver.
func (w *world) unfinished() (texts []string) {
	_ = w.memory.View(context.Background(), func(r store.Reader) error { // which reads in memory
		rows, err := r.Sessions().List(store.SessionFilter{})
		for _, row := range rows {
			if row.Worker != "" || row.Unread() {
				texts = append(texts, fmt.Sprintf("worker %q drives session %s, of which %d of %d events were read",
					row.Worker, row.ID, row.SeenSeq, row.LastSeq))
			}
		}
		return err
	})
	return texts
}
