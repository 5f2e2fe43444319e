package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// stormTools are the tool names that a message of a storm may contain.
var stormTools = []string{"pure", "note", "charge", "slow", "bg_note", "bg_charge", "bg_slow"}

// obedient is a model that calls what the last user message lists, once, and then answers.
type obedient struct{}

func (obedient) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		last := -1
		answered := false
		for i, m := range req.Messages {
			switch m.Role {
			case perdure.RoleUser:
				last, answered = i, false
			case perdure.RoleAgent:
				answered = true
			}
		}
		if last < 0 || answered {
			yield(model.Delta{Text: "done", Finish: model.FinishStop}, nil)
			return
		}
		calls := 0
		for _, order := range strings.Fields(req.Messages[last].Text()) {
			name, _, _ := strings.Cut(order, "#")
			args, _ := json.Marshal(words{Text: order})
			call := perdure.ToolCall{Name: name, Arguments: args}
			if strings.HasPrefix(name, "bg_") {
				call.Name = "spawn_background"
				call.Arguments, _ = json.Marshal(map[string]any{"tool": name, "args": words{Text: order}})
			}
			calls++
			if !yield(model.Delta{Call: &call}, nil) {
				return
			}
		}
		yield(model.Delta{Text: "ok", Finish: model.FinishStop}, nil)
	}
}

// storm is a random program over several engines.
type storm struct {
	t       *testing.T
	dice    *rand.Rand
	st      *memory.Store
	ids     []perdure.SessionID
	orders  int
	faults  float64 // share of transactions and views that fail
	calm    atomic.Bool
	mu      sync.Mutex
	ledger  []chaos.Line // guarded by mu
	rerun   map[perdure.TaskID]bool
	fdice   *rand.Rand // guarded by mu
	trouble []string
}

func (s *storm) effect(class perdure.EffectClass) func(context.Context, words, tool.Env) (answer, error) {
	return func(_ context.Context, in words, env tool.Env) (answer, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ledger = append(s.ledger, chaos.Line{Effect: in.Text, Class: string(class), Key: env.Call.Key})
		return answer{"did": in.Text}, nil
	}
}

func (s *storm) slow(ctx context.Context, in words, env tool.Env) (answer, error) {
	env.Sink.Output("stdout", []byte("slow\n"))
	timer := time.NewTimer(3 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return answer{"did": in.Text}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *storm) tools() *tool.Registry {
	sp := func(name string, class perdure.EffectClass) tool.Spec {
		return tool.Spec{Name: name, Description: "A fixture.", Class: class}
	}
	serial := sp("charge", perdure.AtMostOnce)
	serial.Concurrency = "purse"
	return tool.NewRegistry(append([]tool.Tool{
		tool.New(sp("pure", perdure.Pure), s.effect(perdure.Pure)),
		tool.New(sp("note", perdure.Idempotent), s.effect(perdure.Idempotent)),
		tool.New(serial, s.effect(perdure.AtMostOnce)),
		tool.New(sp("slow", perdure.Pure), s.slow),
		tool.NewBackground(sp("bg_note", perdure.Idempotent), s.effect(perdure.Idempotent)),
		tool.NewBackground(sp("bg_charge", perdure.AtMostOnce), s.effect(perdure.AtMostOnce)),
		tool.NewBackground(sp("bg_slow", perdure.Idempotent), s.slow),
	}, background.Tools(background.Config{})...)...)
}

// life is one engine of a storm.
type life struct {
	eng    *local.Engine
	mortal *enginerig.KillableStore
	stop   context.CancelFunc
	ended  chan error
}

func (s *storm) start(point death) *life {
	s.t.Helper()
	var count atomic.Int64
	var under store.Store = s.st
	if s.faults > 0 {
		under = faulty.New(s.st, faulty.Plan{At: func(p faulty.Point) faulty.Fault {
			if s.calm.Load() || p.Method != "InTx" && p.Method != "View" {
				return faulty.Fault{}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.fdice.Float64() >= s.faults {
				return faulty.Fault{}
			}
			return faulty.Fault{Act: []faulty.Act{faulty.Fail, faulty.DoAndTimeout}[s.fdice.IntN(2)]}
		}})
	}
	l := &life{mortal: enginerig.NewKillableStore(under, &count, point), ended: make(chan error, 1)}
	eng, err := local.Open(s.t.Context(), local.Config{
		Store: l.mortal, Model: obedient{}, Tools: s.tools(),
		Limits:  local.Limits{SlotsPerSession: 2, SlotsPerProcess: 5, MaxExecutions: -1, NoProgress: -1},
		Timing:  local.Timing{Grace: 20 * time.Millisecond, Drain: -1},
		Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	l.eng = eng
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	l.stop = stop
	go func() { l.ended <- eng.Run(ctx) }()
	return l
}

func (l *life) end(kill bool) error {
	if kill {
		l.mortal.Kill()
	}
	l.stop()
	return <-l.ended
}

// step does one random thing. Its errors depend on injected faults.
func (s *storm) step(eng *local.Engine) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
	defer cancel()
	id := s.ids[s.dice.IntN(len(s.ids))]
	switch n := s.dice.IntN(12); {
	case n < 5:
		var orders []string
		for range 1 + s.dice.IntN(4) {
			s.orders++
			orders = append(orders, fmt.Sprintf("%s#%d", stormTools[s.dice.IntN(len(stormTools))], s.orders))
		}
		m := perdure.Text(strings.Join(orders, " "))
		m.Mode = []perdure.Mode{"", perdure.ModeQueue, perdure.ModeInterrupt, perdure.ModeReject}[s.dice.IntN(4)]
		_, _ = eng.Send(ctx, id, m)
	case n < 6:
		_ = eng.Sessions().Interrupt(ctx, id, "user", "storm")
	case n < 8:
		tasks, _ := eng.Tasks().List(ctx, id)
		if len(tasks) > 0 {
			_, _ = eng.Tasks().Cancel(ctx, tasks[s.dice.IntN(len(tasks))].ID, "user", "storm")
		}
	case n < 9:
		s.resolve(ctx, eng, id)
	default:
		idle, done := context.WithTimeout(ctx, time.Duration(s.dice.IntN(4000))*time.Microsecond)
		_ = eng.Sessions().WaitIdle(idle, id)
		done()
	}
}

func (s *storm) resolve(ctx context.Context, eng *local.Engine, id perdure.SessionID) {
	word := engine.Resolution{Answer: []perdure.ResolveAnswer{perdure.ResolveHappened, perdure.ResolveDidNotHappen}[s.dice.IntN(2)], By: "op"}
	tasks, _ := eng.Tasks().List(ctx, id)
	for _, t := range tasks {
		if t.State == perdure.TaskUnknown {
			s.rerun[t.ID] = true
			_ = eng.Tasks().Resolve(ctx, t.ID, word)
		}
	}
	calls, _ := eng.Calls().List(ctx, id)
	for _, c := range calls {
		if c.State == perdure.CallUnknown && c.Task == "" {
			_ = eng.Calls().Resolve(ctx, c.Key, word)
		}
	}
}

// program is the program of one seed.
type program struct {
	seed   uint64
	lives  int     // engines, one after another
	faults float64 // share of transactions and views that fail or are in doubt
	heal   bool    // a last engine recovers; otherwise the faults only end
}

// play runs the program of one seed. heal: a last engine recovers; otherwise the faults only end.
func play(t *testing.T, p program) {
	t.Helper()
	seed, lives, faults, heal := p.seed, p.lives, p.faults, p.heal
	s := &storm{
		t: t, dice: rand.New(rand.NewPCG(seed, 1)), fdice: rand.New(rand.NewPCG(seed, 2)), st: memory.New(memory.Config{}),
		faults: faults, rerun: map[perdure.TaskID]bool{},
	}
	s.calm.Store(true)
	l := s.start(death{})
	for range 2 {
		session, err := l.eng.Sessions().Create(t.Context(), perdure.Agent{SerialCalls: s.dice.IntN(3) == 0})
		if err != nil {
			t.Fatal(err)
		}
		s.ids = append(s.ids, session.ID)
	}
	for n := range lives {
		if s.faults > 0 { // Run does not survive a fault while it recovers
			ctx, cancel := context.WithCancel(t.Context())
			context.AfterFunc(t.Context(), cancel)
			go func(expired chan struct{}) {
				select {
				case <-expired:
				case <-ctx.Done():
				}
				cancel()
			}(l.mortal.Died)
			for _, id := range s.ids {
				_, _ = l.eng.Send(t.Context(), id, perdure.Text("pure#0"))
				_ = l.eng.Sessions().WaitIdle(ctx, id)
			}
			cancel()
		}
		s.calm.Store(false)
		for range 12 {
			s.step(l.eng)
		}
		s.calm.Store(true)
		if n == lives-1 && !heal {
			break
		}
		if err := l.end(s.dice.IntN(3) > 0); err != nil {
			t.Logf("seed %d: %v", seed, err)
		}
		l = s.start(death{N: int64(s.dice.IntN(60)), After: s.dice.IntN(2) == 0})
		if n == lives-1 {
			_ = l.end(true)
			l = s.start(death{})
		}
	}
	s.check(l, seed)
	_ = l.end(false)
}

// check lets everything come to rest and checks it.
func (s *storm) check(l *life, seed uint64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	record := chaos.Record{}
	for _, id := range s.ids {
		if err := l.eng.Sessions().WaitIdle(ctx, id); err != nil {
			s.t.Errorf("seed %d (replay with STORM=%d): %v", seed, seed, err)
		}
		events, err := l.eng.Events(s.t.Context(), id, 0, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		record.Journals = append(record.Journals, chaos.Journal{Session: id, Events: events})
		checkRows(s.t, aftermath{eng: l.eng, id: id}, events)
		ids := map[perdure.EventID]bool{}
		for _, e := range events {
			if ids[e.ID] {
				s.t.Errorf("seed %d: event %s twice", seed, e.ID)
			}
			ids[e.ID] = true
		}
	}
	s.mu.Lock()
	record.Ledger = s.ledger
	s.mu.Unlock()
	for _, v := range chaos.Evaluate(record, chaos.Run{}).Violations {
		resolved := false
		for id := range s.rerun {
			resolved = resolved || v.Invariant == "I16" && strings.Contains(v.Text, string(id))
		}
		if !resolved {
			s.t.Errorf("seed %d: %+v", seed, v)
		}
	}
}

// stormSeeds are the seeds of n programs, or the one seed that STORM names.
func stormSeeds(n int) (from, to uint64) {
	if text := os.Getenv("STORM"); text != "" {
		seed, _ := strconv.ParseUint(text, 10, 64)
		return seed, seed + 1
	}
	return 1, uint64(n) + 1
}

// stormRounds is how many programs of each kind are played; make soak plays more.
const stormRounds = 4

// storms are the kinds of random programs. Engines are killed and stopped; with faults the store
// fails too; with heal a last engine recovers everything, and without it the current engine must.
func storms() map[string]program {
	return map[string]program{
		"kills": {lives: 4, heal: true}, "in_place": {lives: 1},
		"faults": {lives: 3, faults: 0.12, heal: true}, "faults_in_place": {lives: 1, faults: 0.12},
	}
}

// TestStorm runs random programs of each kind.
func TestStorm(t *testing.T) {
	t.Parallel()
	playStorms(t, stormRounds)
}

func playStorms(t *testing.T, rounds int) {
	t.Helper()
	for name, p := range storms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := stormSeeds(rounds)
			for p.seed = from; p.seed < to; p.seed++ {
				play(t, p)
			}
		})
	}
}
