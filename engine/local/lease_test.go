package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// pauses is what a frozen worker can notice of the pause.
type pauses int

const (
	clockRings pauses = iota // its own clock runs, as when only its store hangs
	clockStops               // none of its timers fire, as after SIGSTOP: only the store refuses it
	leaseOff                 // the store does not check its lease either: only epochs, attempts and tokens refuse it
)

// round is one program over workers that share a store.
type round struct {
	t      *testing.T
	seed   uint64
	dice   *rand.Rand
	office *office
	st     *memory.Store
	pauses pauses
	id     perdure.SessionID
	orders int

	unfenced bool // epochs are not checked for the first worker

	mu     sync.Mutex
	ledger []chaos.Line // guarded by mu
}

func newRound(t *testing.T, seed uint64, p pauses) *round {
	r := &round{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 7)), office: newOffice(), st: memory.New(memory.Config{}), pauses: p}
	r.office.unsure = p == leaseOff
	return r
}

// member is a worker of a round.
type member struct {
	*desk
	eng   *local.Engine
	stop  context.CancelFunc
	ended chan error // capacity 1
}

// transient is the name of a worker for one command.
const transient = "transient"

// join opens a worker and runs it. It freezes at one of its transactions; point 0: not by itself.
func (r *round) join(name string, point int, after bool) *member {
	r.t.Helper()
	m := &member{desk: r.office.desk(name, r.st, point, after), ended: make(chan error, 1)}
	m.spy = spyConfig{unleased: r.pauses == leaseOff, unfenced: r.unfenced && name == "a"}
	eng, err := local.Open(context.WithoutCancel(r.t.Context()), local.Config{
		Store: m.desk, Model: obedient{}, Tools: r.tools(m.desk),
		Limits: local.Limits{SlotsPerSession: 3, MaxExecutions: -1, NoProgress: -1}, Timing: local.Timing{Drain: -1},
		Workers: local.Workers{Shared: true, Transient: name == transient},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	m.eng = eng
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	m.stop = stop
	go func() { m.ended <- eng.Run(ctx) }()
	return m
}

// tools take a second or two, and stop with their worker.
func (r *round) tools(d *desk) *tool.Registry {
	effect := func(class perdure.EffectClass) func(context.Context, words, tool.Env) (answer, error) {
		return func(ctx context.Context, in words, env tool.Env) (answer, error) {
			if env.Sink != nil {
				env.Sink.Output("stdout", []byte("work\n"))
			}
			select {
			case <-time.After(1500 * time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			d.stand()
			r.mu.Lock()
			r.ledger = append(r.ledger, chaos.Line{Effect: in.Text, Class: string(class), Key: env.Call.Key})
			r.mu.Unlock()
			d.stand()
			return answer{"did": in.Text}, nil
		}
	}
	slow := func(ctx context.Context, in words, _ tool.Env) (answer, error) {
		select {
		case <-time.After(time.Minute):
			return answer{"did": in.Text}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	long := tool.Spec{Name: "slow", Description: "A fixture.", Class: perdure.Pure}
	tools := []tool.Tool{tool.New(long, slow)}
	long.Name = "bg_slow"
	tools = append(tools, tool.NewBackground(long, slow))
	for name, class := range map[string]perdure.EffectClass{"pure": perdure.Pure, "note": perdure.Idempotent, "charge": perdure.AtMostOnce} {
		sp := tool.Spec{Name: name, Description: "A fixture.", Class: class}
		tools = append(tools, tool.New(sp, effect(class)))
		sp.Name = "bg_" + name
		tools = append(tools, tool.NewBackground(sp, effect(class)))
	}
	return tool.NewRegistry(append(tools, background.Tools(background.Config{})...)...)
}

// wish is a message that requests a few calls at once.
func (r *round) wish() perdure.Message {
	names := []string{"pure", "note", "charge", "bg_pure", "bg_note", "bg_charge"}
	var orders []string
	for range 2 + r.dice.IntN(3) {
		r.orders++
		orders = append(orders, fmt.Sprintf("%s#%d", names[r.dice.IntN(len(names))], r.orders))
	}
	return perdure.Text(strings.Join(orders, " "))
}

// say sends a message through a worker.
func (r *round) say(m *member, message perdure.Message) {
	if _, err := m.eng.Send(r.t.Context(), r.id, message); err != nil {
		r.office.blame("seed %d: a message to %s: %v", r.seed, m.name, err)
	}
}

// pass advances the time.
func pass(d time.Duration) { <-time.After(d) }

// leave stops a worker and returns how it ended.
func (m *member) leave() error {
	m.thaw()
	m.stop()
	return <-m.ended
}

// quiet waits until the session is idle and all its tasks have ended and are delivered.
func (r *round) quiet(m *member) {
	for range 60 {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		err := m.eng.Sessions().WaitIdle(ctx, r.id)
		cancel()
		tasks, failed := m.eng.Tasks().List(r.t.Context(), r.id)
		open := 0
		for _, t := range tasks {
			if !t.State.Terminal() || t.Delivery == perdure.ToLoop && t.Delivered == perdure.NotDelivered {
				open++
			}
		}
		if err == nil && failed == nil && open == 0 {
			return
		}
		pass(time.Second)
	}
	// Exceeding the time is a violation, since a round without fences may leave the session stuck.
	r.office.blame("seed %d: the session does not come to rest with %s: %s", r.seed, m.name, r.story(m))
}

func (r *round) story(m *member) string {
	events, _ := m.eng.Events(context.Background(), r.id, 0, 0)
	text := ""
	for _, e := range events {
		text += fmt.Sprintf("%s %s %T %s; ", e.Type(), e.Call, e.Fact, e.Task)
	}
	return text
}

// begin creates the session with its first messages.
func (r *round) begin(m *member) {
	r.t.Helper()
	session, err := m.eng.Sessions().Create(r.t.Context(), perdure.Agent{SerialCalls: r.dice.IntN(3) == 0})
	if err != nil {
		r.t.Fatal(err)
	}
	r.id = session.ID
}

// paused runs one round: the leader is frozen beyond its lease at some transaction, the second
// worker takes over and finishes, and the first continues. It returns the violations.
func (r *round) paused() []string {
	a := r.join("a", 0, false)
	synctest.Wait()
	b := r.join("b", 0, false)
	synctest.Wait()
	r.begin(b)
	a.mu.Lock()
	a.point, a.after = a.n+1+r.dice.IntN(25), r.dice.IntN(2) == 0
	a.mu.Unlock()
	wish, limit := r.wish(), time.Duration(r.dice.IntN(6000))*time.Millisecond
	given := make(chan struct{})
	go func() { // it may freeze in it
		defer close(given)
		r.say(a, wish)
	}()
	select {
	case <-a.hit:
	case <-time.After(limit):
		a.freeze()
	}
	if r.pauses != clockRings {
		local.Blind(a.eng)
	}
	pass(time.Duration(5+r.dice.IntN(25)) * time.Second)
	r.say(b, r.wish())
	if r.dice.IntN(2) == 0 {
		r.quiet(b)
	}
	pass(20 * time.Second)
	if r.dice.IntN(2) == 0 { // it comes back in the middle of a turn
		r.say(b, r.wish())
		pass(time.Duration(r.dice.IntN(2000)) * time.Millisecond)
	}
	a.thaw()
	<-given
	if r.dice.IntN(3) == 0 {
		r.say(a, r.wish()) // an intent, which any worker may record
	}
	pass(5 * time.Second)
	ended := a.leave()
	r.quiet(b)
	if err := b.leave(); err != nil {
		r.office.blame("b ended with %v", err)
	}
	if r.pauses != leaseOff && !errors.Is(ended, perdure.Lost) {
		r.office.blame("a ended with %v", ended)
	}
	return r.judge(b)
}

func (o *office) blame(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// judge checks the invariants at the end.
func (r *round) judge(m *member) []string {
	events, err := m.eng.Events(context.Background(), r.id, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	record := chaos.Record{Journals: []chaos.Journal{{Session: r.id, Events: events}}, Ledger: r.ledger}
	r.mu.Unlock()
	wrong := r.office.problems()
	for _, v := range chaos.Check(record) {
		wrong = append(wrong, fmt.Sprintf("%+v", v))
	}
	return wrong
}

// leaseRounds are the seeds of n rounds. LEASE_SEED is the first one.
func leaseRounds(t *testing.T, n int) (from, to uint64) {
	t.Helper()
	from = uint64(soak.Count(t, "LEASE_SEED", 1, 1))
	return from, from + uint64(n)
}

// crowd runs one round of three workers. Three times the one that leads is frozen beyond its lease
// and replaced.
func (r *round) crowd() []string {
	members := []*member{r.join("a", 0, false), r.join("b", 0, false), r.join("c", 0, false)}
	synctest.Wait()
	r.begin(members[0])
	for range 3 {
		i := max(slices.IndexFunc(members, func(m *member) bool { return local.Leads(m.eng) }), 0)
		m := members[i]
		for _, any := range members {
			r.say(any, r.wish())
		}
		pass(time.Duration(r.dice.IntN(4000)) * time.Millisecond)
		m.freeze()
		if r.pauses != clockRings {
			local.Blind(m.eng)
		}
		next := r.join(m.name+"'", 0, false)
		pass(time.Duration(12+r.dice.IntN(20)) * time.Second)
		m.thaw()
		pass(time.Duration(1+r.dice.IntN(5)) * time.Second)
		if ended := m.leave(); ended != nil && !errors.Is(ended, perdure.Lost) {
			r.office.blame("%s ended with %v", m.name, ended)
		}
		members[i] = next
	}
	last := members[len(members)-1]
	r.quiet(last)
	for _, m := range members {
		if err := m.leave(); err != nil {
			r.office.blame("%s ended with %v", m.name, err)
		}
	}
	return r.judge(last)
}

// TestR12ThreeWorkers is TestR12PausedWorker with three workers and three pauses.
func TestR12ThreeWorkers(t *testing.T) {
	t.Parallel()
	threeWorkers(t, 3)
}

func threeWorkers(t *testing.T, rounds int) {
	t.Helper()
	from, to := leaseRounds(t, rounds)
	for seed := from; seed < to && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			for _, wrong := range newRound(t, seed, pauses(seed%3)).crowd() {
				t.Errorf("%s\nreplay with LEASE_SEED=%d go test -run 'TestR12ThreeWorkers$' ./engine/local", wrong, seed)
			}
		})
	}
}

// TestR12StaleWritesAreSeen removes the fences against a paused worker, its lease and the session's
// epoch: the rounds must then fail, and the checks notice it.
func TestR12StaleWritesAreSeen(t *testing.T) {
	t.Parallel()
	stale := 0
	for seed := uint64(1); seed <= 60 && stale == 0; seed++ {
		synctest.Test(t, func(t *testing.T) {
			r := newRound(t, seed, leaseOff)
			r.unfenced = true
			for _, wrong := range r.paused() {
				if strings.HasPrefix(wrong, "a writes ") {
					stale++
				}
			}
		})
	}

	if stale == 0 {
		t.Error("no stale write was seen without the fences")
	}
}

// TestR12PausedWorker pauses a worker beyond its lease while another takes over, and lets it
// continue: it cannot change anything any more (R12, RC18).
func TestR12PausedWorker(t *testing.T) {
	t.Parallel()
	pausedWorkers(t, 15)
}

func pausedWorkers(t *testing.T, rounds int) {
	t.Helper()
	from, to := leaseRounds(t, rounds)
	for seed := from; seed < to && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			for _, wrong := range newRound(t, seed, pauses(seed%3)).paused() {
				t.Errorf("%s\nreplay with LEASE_SEED=%d go test -run 'TestR12PausedWorker$' ./engine/local", wrong, seed)
			}
		})
	}
}

// TestSharedIntents sends intents to a worker that does not have the session: its owner notices
// them at its next beat, and keeps the session (LG20).
func TestSharedIntents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRound(t, 1, clockRings)
		a, b := r.join("a", 0, false), r.join("b", 0, false)
		synctest.Wait()
		r.begin(a)
		r.say(a, perdure.Text("bg_slow#1 slow#2"))
		pass(time.Second)
		row := func() (s store.Session) {
			err := r.st.View(t.Context(), func(tx store.Reader) (err error) {
				s, err = tx.Sessions().Get(r.id)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		before := row()

		r.say(b, perdure.Text("pure#3"))
		tasks, err := b.eng.Tasks().List(t.Context(), r.id)
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		if _, err := b.eng.Tasks().Cancel(t.Context(), tasks[0].ID, "user", "enough"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second) // more than a beat
		task, err := b.eng.Tasks().Get(t.Context(), tasks[0].ID)

		if err != nil || task.State != perdure.TaskCanceled || task.Attempt != 1 || task.Worker != tasks[0].Worker {
			t.Errorf("after a beat the task is %s, attempt %d, %v", task.State, task.Attempt, err)
		}
		if now := row(); now.Worker != before.Worker || now.Epoch != before.Epoch {
			t.Errorf("epoch %d of %s became %d of %s", before.Epoch, before.Worker, now.Epoch, now.Worker)
		}
		r.quiet(b)
		if story := r.story(b); strings.Count(story, "tool.completed") < 3 {
			t.Errorf("the message did not get its turn: %s", story)
		}
		for _, m := range []*member{a, b} {
			if err := m.leave(); err != nil {
				t.Error(err)
			}
		}
		for _, wrong := range r.judge(b) {
			t.Error(wrong)
		}
	})
}
