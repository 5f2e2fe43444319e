//go:build soak

package local_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestR14ThousandSchedules lets a thousand schedules fire over hours, with crashes at many
// transactions of their fires, and a night in between in which nothing runs: none fires twice, none
// is skipped without a row, and late fires are spread out (SC20).
func TestR14ThousandSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const schedules, kills = 1000, 12
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		var all []perdure.Schedule
		for i := range schedules {
			if i%10 == 0 {
				all = append(all, b.every(eng, b.session(eng), func(s *perdure.Schedule) { s.Cron = fmt.Sprintf("%d * * * *", i/10%60) }))
				continue
			}
			policy := []perdure.MissedPolicy{perdure.MissedOne, perdure.MissedSkip, perdure.MissedAll}[i%3]
			all = append(all, b.every(eng, all[i-1].Session, func(s *perdure.Schedule) {
				s.Cron, s.Missed, s.Window = fmt.Sprintf("%d * * * *", i%60), policy, 2*time.Hour
			}))
		}
		began := time.Now()
		b.pass(2*time.Minute + 30*time.Second)
		end()
		for i := range kills { // each in another transaction of some minute's fires and their ends
			_, end = b.start(faulty.Nth("InTx", 2+7*i, faulty.Fault{Act: []faulty.Act{faulty.Die, faulty.DieAfter}[i%2]}))
			for !b.last.Dead() {
				b.pass(time.Second)
			}
			end()
		}
		b.pass(30 * time.Second)
		_, end = b.start(faulty.Plan{})
		b.pass(10 * time.Minute)
		end()
		b.peak()
		b.pass(8 * time.Hour)
		woke := time.Now()
		_, end = b.start(faulty.Plan{})
		b.pass(10 * time.Second)
		if got, most := b.peak(), 4+2*(schedules/60+1); got > most { // the late ones, and those of the minute
			t.Errorf("after the night %d ran at once, want at most %d", got, most)
		}
		b.pass(20 * time.Minute)
		end()

		keys, worst, late := 0, time.Duration(0), 0
		for _, s := range all {
			next := s.NextAt
			for _, f := range b.fires(s.ID) {
				const step = time.Hour
				if want := next.Add(time.Duration(f.Merged) * step); !f.Nominal.Equal(want) {
					t.Fatalf("schedule %s, %s: got a row of %s for %d, want %s", s.ID, s.Cron, f.Nominal, f.Merged+1, want)
				}
				next = f.Nominal.Add(step)
				if f.Outcome == perdure.Fired {
					keys++
					if f.Reason != "" {
						late++
					} else {
						worst = max(worst, f.Actual.Sub(f.Nominal))
					}
				}
			}
			if next.Before(time.Now().Add(-time.Minute)) {
				t.Fatalf("schedule %s, %s: nothing was said of %s", s.ID, s.Cron, next)
			}
		}
		if len(b.rang()) != keys {
			t.Errorf("got %d runs of %d fires", len(b.rang()), keys)
		}
		cut := 0
		for key, n := range b.rang() {
			if cut += n - 1; n > 1+kills { // an interrupted run is idempotent, and runs again under the same key
				t.Errorf("%s ran %d times", key, n)
			}
		}
		if cut > 60*kills {
			t.Errorf("%d runs were begun again", cut)
		}
		t.Logf("figure R14: %d schedules from %s on, %d kills among their fires, down until %s: %d fires, each once, %d of them late; %d runs cut and begun again; on time at most %s after their moment",
			schedules, began.Format(time.TimeOnly), kills, woke.Format(time.TimeOnly), keys, late, cut, worst)
	})
}

// TestRetentionForEver keeps what ended years ago.
func TestRetentionForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := plain{"bg_note", func(context.Context, tool.Env) tool.Result { return tool.Success("done") }}
		a := openArchive(t, spawnOne, local.Config{Store: memory.New(memory.Config{}), Timing: local.Timing{Retention: -1}}, good)
		a.begin()
		a.say("go")
		a.pass(700 * 24 * time.Hour)
		if n := len(a.tasks()); n != 1 {
			t.Errorf("%d tasks are left of 1", n)
		}
	})
}

// TestRetentionPerState lets a run end in each state, twice, the second time twenty days after the
// first, and then months pass: runs that ended 30 days ago and were delivered are removed, from the
// rows and the journal, and all others stay (TK16).
func TestRetentionPerState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{}) // one word for each late run
		a := openArchive(t, manyStates, local.Config{Store: memory.New(memory.Config{}), Limits: local.Limits{PruneBatch: 2}}, ofStates(release)...)
		a.begin()
		all := []string{"asks", "bad", "blind", "good", "late", "runs", "victim"}
		stay := []string{"asks", "blind", "late", "runs"}

		a.batch(release)
		a.pass(20*24*time.Hour + 30*time.Minute)
		second := time.Now()
		a.batch(release)
		a.want("on both sides of nothing", second, all, all)
		wantStates(a)
		a.pass(10*24*time.Hour - 2*time.Hour)
		a.want("right before 30 days", second, all, all)

		quiet := len(a.events())
		a.pass(3 * time.Hour)
		a.want("after 30 days", second, stay, all)
		for _, e := range a.events()[quiet:] {
			if _, ok := e.Fact.(perdure.TaskPruned); !ok {
				t.Errorf("retention was followed by %s", e.Type())
			}
		}
		if n := len(a.events()) - quiet; n != 2 { // three tasks, two at a time
			t.Errorf("three tasks were forgotten in %d commits", n)
		}

		ready, err := a.eng.Tasks().Drain(t.Context(), a.id)
		if err != nil || len(ready) != 2 {
			t.Fatalf("%d were ready, %v", len(ready), err)
		}
		for _, task := range a.tasks() {
			if task.State == perdure.TaskUnknown && task.CreatedAt.Before(second) {
				if err := a.eng.Tasks().Resolve(t.Context(), task.ID, engine.Resolution{Answer: perdure.ResolveDidNotHappen, By: "operator"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		a.pass(2 * time.Hour)
		a.want("when one was drained and one resolved", second, []string{"asks", "runs"}, all) // it had ended long ago

		a.pass(20 * 24 * time.Hour)
		a.want("after 50 days", second, []string{"asks", "runs"}, []string{"asks", "blind", "runs"})
		a.pass(400 * 24 * time.Hour)
		a.want("a year later", second, []string{"asks", "runs"}, []string{"asks", "blind", "runs"})
	})
}
