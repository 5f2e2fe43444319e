package local_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// bell is a set of schedules in a bubble of time: a store that outlives its engines, and a tool
// that records its runs.
type bell struct {
	*testing.T
	st    *memory.Store
	rules perdure.ScheduleRules
	takes time.Duration // duration of a run of the tool
	fails bool
	last  *faulty.Store // of the engine that was started last
	share bool          // the store is one of several workers
	over  store.Store   // the store of engines instead of st; nil: st

	mu     sync.Mutex
	runs   map[string]int // by idempotency key
	answer string         // of the tool
	live   int            // running now
	most   int            // running at once, at most

	wanted perdure.Schedule   // guarded by mu; what the tool watch creates
	made   []perdure.Schedule // guarded by mu; what it has created
}

func newBell(t *testing.T) *bell {
	rules := perdure.DefaultScheduleRules()
	rules.PerSession, rules.PerOrg, rules.MinInterval = 0, 0, time.Minute
	return &bell{T: t, st: memory.New(memory.Config{}), rules: rules, takes: time.Second, runs: map[string]int{}}
}

// ring is the tool.
func (b *bell) ring(ctx context.Context, _ struct{}, env tool.Env) (map[string]string, error) {
	b.mu.Lock()
	b.runs[env.Call.Key]++
	b.live++
	b.most = max(b.most, b.live)
	b.mu.Unlock()
	defer b.leave()
	select {
	case <-time.After(b.takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails {
		return nil, errors.New("boom")
	}
	return map[string]string{"rang": b.answer}, nil
}

func (b *bell) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live--
}

// watchesOnce is a model that calls the tool watch when the user asks for it.
const watchesOnce = `
rules:
  - when: {user_contains: watch, last_role: user}
    calls: [{name: watch, args: {}}]
steps: [{text: done, repeat: true}]
`

// start runs an engine over the store until the returned function ends it.
func (b *bell) start(plan faulty.Plan) (*local.Engine, func()) {
	b.Helper()
	m, err := scripted.Parse("law", []byte(watchesOnce))
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	plan.Died = stop
	if b.over == nil {
		b.over = b.st
	}
	cfg := local.Config{Store: faulty.New(b.over, plan), Model: m, Timing: local.Timing{Drain: -1, Grace: time.Millisecond}, Limits: local.Limits{SlotsPerSession: -1, SlotsPerProcess: -1, QueueLength: 2000}}
	cfg.Timekeeping.Schedules, cfg.Workers.Beat, cfg.Workers.Lease, cfg.Workers.Shared = b.rules, 10*time.Minute, time.Hour, b.share
	b.last = cfg.Store.(*faulty.Store)
	ring := tool.NewBackground(tool.Spec{Name: "ring", Description: "Rings", Class: perdure.Idempotent, NeedsEnv: true}, b.ring)
	asks := tool.NewBackground(tool.Spec{Name: "ask", Description: "Asks first", Class: perdure.Idempotent, NeedsEnv: true, Policy: tool.PolicyRequiresApproval}, b.ring)
	watch := tool.New(tool.Spec{Name: "watch", Description: "Creates a monitor", Class: perdure.Idempotent, NeedsEnv: true}, b.watch)
	cfg.Tools = tool.NewRegistry(append([]tool.Tool{ring, asks, watch}, background.Tools(background.Config{})...)...)
	eng, err := local.Open(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = eng.Run(ctx)
	}()
	return eng, func() {
		stop()
		<-ended
		synctest.Wait()
	}
}

// pass advances the time in the bubble, until everything that it woke is blocked again: the tool's
// counters may then be read.
func (b *bell) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// peak returns the maximum number of concurrent runs since the last call.
func (b *bell) peak() (most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most, b.most = b.most, 0
	return most
}

// rang returns how often the tool ran, by idempotency key.
func (b *bell) rang() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.runs)
}

func (b *bell) session(eng engine.Engine) perdure.SessionID {
	b.Helper()
	s, err := eng.Sessions().Create(b.Context(), perdure.Agent{})
	if err != nil {
		b.Fatal(err)
	}
	return s.ID
}

// every creates a schedule that fires at minutes of an hour.
func (b *bell) every(eng *local.Engine, id perdure.SessionID, change func(*perdure.Schedule)) perdure.Schedule {
	b.Helper()
	s := perdure.Schedule{Session: id, Owner: "ada", Title: "Ring", Cron: "*/10 * * * *", Action: perdure.ScheduleAction{Tool: "ring", Args: []byte(`{}`)}}
	if change != nil {
		change(&s)
	}
	made, err := eng.Schedules().Create(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	return made
}

// fires are the rows of a schedule, the oldest first.
func (b *bell) fires(id perdure.ScheduleID) (fires []perdure.Fire) {
	b.Helper()
	err := b.st.View(context.Background(), func(r store.Reader) (err error) {
		fires, err = r.Schedules().Fires(id, 0)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for i, j := 0, len(fires)-1; i < j; i, j = i+1, j-1 {
		fires[i], fires[j] = fires[j], fires[i]
	}
	return fires
}

// TestScheduleRuns fires a tool at its times, directly and once each, with the task in the same
// commit (SC15, SC25).
func TestScheduleRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		s := b.every(eng, b.session(eng), nil)

		b.pass(time.Hour + 2*time.Second)

		fires := b.fires(s.ID)
		if len(fires) != 6 || len(b.rang()) != 6 {
			t.Fatalf("got %d fires and %d runs in an hour, want 6", len(fires), len(b.rang()))
		}
		for i, f := range fires {
			task, err := eng.Tasks().Get(t.Context(), f.Task)
			if err != nil {
				t.Fatal(err)
			}
			late := f.Actual.Sub(f.Nominal)
			if f.Outcome != perdure.Fired || !f.Nominal.Equal(s.NextAt.Add(time.Duration(i)*10*time.Minute)) || late < 0 || late > 250*time.Millisecond {
				t.Errorf("got %+v, %s late", f, late)
			}
			if b.rang()[task.LedgerKey().IdempotencyKey()] != 1 || task.State != perdure.TaskSucceeded || task.Origin != perdure.OriginSchedule || task.Turn != "" {
				t.Errorf("got task %+v, run %d times", task, b.rang()[task.LedgerKey().IdempotencyKey()])
			}
		}
		end()
	})
}

// TestScheduleMessage sends an input that starts a turn.
func TestScheduleMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		s := b.every(eng, id, func(s *perdure.Schedule) { s.Action = perdure.ScheduleAction{Message: "look around"} })

		b.pass(30*time.Minute + time.Second)

		turns, inputs := 0, 0
		events, err := eng.Events(t.Context(), id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			switch f := e.Fact.(type) {
			case perdure.MessageReceived:
				if f.Source == "schedule" && f.Message.Text() == "look around" && f.Mode == perdure.ModeQueue {
					inputs++
				}
			case perdure.TurnCompleted:
				turns++
			}
		}
		if turns != 3 || inputs != 3 || len(b.fires(s.ID)) != 3 {
			t.Errorf("got %d turns and %d inputs of %d fires, want 3", turns, inputs, len(b.fires(s.ID)))
		}
		end()
	})
}

// TestScheduleOverlap checks each overlap policy while a run takes longer than the interval (SC14).
func TestScheduleOverlap(t *testing.T) {
	t.Parallel()
	for policy, want := range map[perdure.OverlapPolicy]struct {
		outcomes string
		most     int
	}{
		"skip":    {"fired skipped_overlap fired skipped_overlap fired skipped_overlap", 1},
		"allow":   {"fired fired fired fired fired fired", 2},
		"queue":   {"fired fired fired fired skipped_overlap fired", 1},
		"replace": {"fired fired fired fired fired fired", 1},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBell(t)
				b.takes = 14 * time.Minute
				eng, end := b.start(faulty.Plan{})
				s := b.every(eng, b.session(eng), func(s *perdure.Schedule) { s.Overlap = policy })

				b.pass(time.Until(s.NextAt) + 69*time.Minute)

				got := ""
				for _, f := range b.fires(s.ID)[:6] {
					got += " " + string(f.Outcome)
				}
				most := b.peak()
				if got != " "+want.outcomes || most != want.most {
					t.Errorf("got%s, and %d at once; want %s, and %d", got, most, want.outcomes, want.most)
				}
				end()
			})
		})
	}
}

// TestScheduleFailures: a schedule pauses after too many failures in a row, and notifies the model
// (SC17).
func TestScheduleFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		b.rules.MaxFailures, b.fails = 3, true
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		s := b.every(eng, id, nil)

		b.pass(2 * time.Hour)

		paused := 0
		events, err := eng.Events(t.Context(), id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if f, ok := e.Fact.(perdure.SchedulePaused); ok && len(f.Notification.Parts) == 1 {
				paused++
			}
		}
		now, err := eng.Schedules().Get(t.Context(), s.ID)
		if err != nil || now.Enabled || now.Failures != 3 || paused != 1 || len(b.fires(s.ID)) != 3 {
			t.Errorf("got %+v, %v, paused %d times after %d fires", now, err, paused, len(b.fires(s.ID)))
		}
		end()
	})
}

// TestR13KillAtFire kills the engine at each transaction around its fires, before the commit and
// between the commit and its result. Each nominal time has one row, and each row that fired one
// run.
func TestR13KillAtFire(t *testing.T) {
	t.Parallel()
	for _, act := range []faulty.Act{faulty.Die, faulty.DieAfter} {
		t.Run(fmt.Sprint(act), func(t *testing.T) {
			t.Parallel()
			died := 0
			for n := 2; n < 18; n++ {
				synctest.Test(t, func(t *testing.T) {
					if killAtFire(t, n, act) {
						died++
					}
				})
			}
			if died < 10 {
				t.Errorf("it came to %d deaths only", died)
			}
			t.Logf("figure R13: %d deaths (%v) in the transactions around fires: each nominal time has one row, and one run", died, act)
		})
	}
}

func killAtFire(t *testing.T, n int, act faulty.Act) (died bool) {
	b := newBell(t)
	eng, end := b.start(faulty.Plan{})
	id := b.session(eng)
	tools := b.every(eng, id, func(s *perdure.Schedule) { s.Missed = perdure.MissedAll })
	words := b.every(eng, id, func(s *perdure.Schedule) {
		s.Missed, s.Action = perdure.MissedAll, perdure.ScheduleAction{Message: "look"}
	})
	end()
	first := time.Now()
	plan := faulty.Nth("InTx", n, faulty.Fault{Act: act})
	_, end = b.start(plan)
	b.pass(35 * time.Minute)
	died = b.last.Dead()
	end()
	_, end = b.start(faulty.Plan{})
	b.pass(35 * time.Minute)
	end()

	for _, s := range []perdure.Schedule{tools, words} {
		nominal := s.NextAt
		for _, f := range b.fires(s.ID) {
			if !f.Nominal.Equal(nominal) || f.Outcome != perdure.Fired {
				t.Errorf("kill at %d: got %s of %s, want a fire of %s", n, f.Outcome, f.Nominal, nominal)
			}
			nominal = nominal.Add(10 * time.Minute)
		}
		if past := time.Since(first) / (10 * time.Minute) * (10 * time.Minute); nominal.Before(first.Add(past)) {
			t.Errorf("kill at %d: after %s the next is %s", n, past, nominal)
		}
	}
	fires := b.fires(tools.ID)
	if len(b.rang()) != len(fires) {
		t.Errorf("kill at %d: %d fires and %d runs", n, len(fires), len(b.rang()))
	}
	inputs := 0
	err := b.st.View(context.Background(), func(r store.Reader) error {
		events, err := r.Journal().Events(id, 0, 0)
		for _, e := range events {
			if f, ok := e.Fact.(perdure.MessageReceived); ok && f.Source == "schedule" {
				inputs++
			}
		}
		return err
	})
	if err != nil || inputs != len(b.fires(words.ID)) {
		t.Errorf("kill at %d: %d inputs of %d fires, %v", n, inputs, len(b.fires(words.ID)), err)
	}
	return died
}

// TestScheduleActs pauses, resumes, triggers, backfills and deletes (SC22).
func TestScheduleActs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		s := b.every(eng, b.session(eng), nil)
		b.pass(20*time.Minute + time.Second)

		paused, err := eng.Schedules().Pause(t.Context(), s.ID, "ada", "")
		if err != nil || paused.Enabled || !paused.NextAt.IsZero() {
			t.Errorf("paused: got %+v, %v", paused, err)
		}
		b.pass(time.Hour)
		fire, err := eng.Schedules().Trigger(t.Context(), s.ID, "ada")
		if err != nil || fire.Outcome != perdure.Fired || fire.Task == "" {
			t.Errorf("triggered: got %+v, %v", fire, err)
		}
		if n := len(b.fires(s.ID)); n != 3 {
			t.Errorf("got %d fires while it was paused, want two before and one by hand", n)
		}
		resumed, err := eng.Schedules().Resume(t.Context(), s.ID, "ada")
		if err != nil || !resumed.Enabled || !resumed.NextAt.After(time.Now()) {
			t.Errorf("resumed: got %+v, %v", resumed, err)
		}
		stretch := engine.TimeRange{From: s.NextAt, To: time.Now(), By: "ada", DryRun: true}
		would, err := eng.Schedules().Backfill(t.Context(), s.ID, stretch)
		stretch.DryRun = false
		did, failed := eng.Schedules().Backfill(t.Context(), s.ID, stretch)
		again, twice := eng.Schedules().Backfill(t.Context(), s.ID, stretch)
		if errors.Join(err, failed, twice) != nil || len(would) != 6 || len(did) != 6 || len(again) != 0 {
			t.Errorf("backfill: got %d, %d, %d, %v, want 6, 6, 0", len(would), len(did), len(again), errors.Join(err, failed, twice))
		}
		b.pass(time.Minute)
		if len(b.rang()) != 9 {
			t.Errorf("got %d runs, want 9", len(b.rang()))
		}
		if err := eng.Schedules().Delete(t.Context(), s.ID, "ada"); err != nil {
			t.Error(err)
		}
		if _, err := eng.Schedules().Get(t.Context(), s.ID); !errors.Is(err, perdure.NotFound) {
			t.Errorf("deleted: got %v", err)
		}
		end()
	})
}

// TestScheduleRefused at creation, and never later (SC9 to SC11, SC19).
func TestScheduleRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		b.rules = perdure.DefaultScheduleRules()
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		for name, change := range map[string]func(*perdure.Schedule){
			"bad_cron":      func(s *perdure.Schedule) { s.Cron = "61 * * * *" },
			"never":         func(s *perdure.Schedule) { s.Cron = "0 0 31 2 *" },
			"too_often":     func(s *perdure.Schedule) { s.Cron = "*/4 * * * *" },
			"burst":         func(s *perdure.Schedule) { s.Cron = "0,1 3 * * *" },
			"zone":          func(s *perdure.Schedule) { s.Zone = "Mars/Olympus" },
			"local":         func(s *perdure.Schedule) { s.Zone = "Local" },
			"past":          func(s *perdure.Schedule) { s.Cron, s.At = "", time.Now().Add(-2*time.Minute) },
			"unknown_tool":  func(s *perdure.Schedule) { s.Action.Tool = "gong" },
			"not_in_the_bg": func(s *perdure.Schedule) { s.Action.Tool = "list_tasks" },
			"bad_arguments": func(s *perdure.Schedule) { s.Action.Args = []byte(`{"x":1}`) },
		} {
			s := perdure.Schedule{Session: id, Cron: "*/10 * * * *", Action: perdure.ScheduleAction{Tool: "ring", Args: []byte(`{}`)}}
			change(&s)
			if made, err := eng.Schedules().Create(t.Context(), s); !errors.Is(err, perdure.Invalid) {
				t.Errorf("%s: got %+v, %v, want Invalid", name, made, err)
			}
		}
		if _, err := eng.Schedules().Create(t.Context(), perdure.Schedule{Session: "session_x", Cron: "@daily", Action: perdure.ScheduleAction{Message: "x"}}); !errors.Is(err, perdure.NotFound) {
			t.Errorf("no session: got %v", err)
		}
		for range 5 {
			b.every(eng, id, nil)
		}
		_, err := eng.Schedules().Create(t.Context(), perdure.Schedule{Session: id, Cron: "@daily", Action: perdure.ScheduleAction{Message: "x"}})
		if !errors.Is(err, perdure.Limit) {
			t.Errorf("the sixth: got %v, want Limit", err)
		}
		end()
	})
}
