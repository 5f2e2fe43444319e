package local_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/tool"
)

// monitor creates a schedule with a monitor, twice with the same call: the result is one monitor.
func (b *bell) monitor(eng *local.Engine, id perdure.SessionID, change func(*perdure.Schedule)) perdure.Schedule {
	b.Helper()
	s := perdure.Schedule{
		Session: id, Title: "Watch", Cron: "*/10 * * * *", Overlap: perdure.OverlapAllow,
		Action: perdure.ScheduleAction{Tool: "ring", Args: []byte(`{}`), Signal: true},
	}
	if change != nil {
		change(&s)
	}
	b.mu.Lock()
	b.wanted, b.made = s, nil
	b.mu.Unlock()
	_, err := eng.Send(b.Context(), id, perdure.Text("watch"))
	if err == nil {
		err = eng.Sessions().WaitIdle(b.Context(), id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || len(b.made) != 2 || b.made[0].ID != b.made[1].ID || b.made[0].Monitor == "" {
		b.Fatalf("got %+v, %v", b.made, err)
	}
	return b.made[0]
}

// watch is a tool, called by the model, that creates the wanted schedule with a monitor, twice.
func (b *bell) watch(ctx context.Context, _ struct{}, env tool.Env) (struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range 2 {
		made, err := env.Schedules.CreateSchedule(ctx, tool.ScheduleRequest{Schedule: b.wanted, Monitor: true})
		if err != nil {
			return struct{}{}, err
		}
		b.made = append(b.made, made)
	}
	return struct{}{}, nil
}

// TestMonitor runs its tool directly, in children whose results are delivered, and stays running
// (SC23, SC25, SC27, SC28).
func TestMonitor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		s := b.monitor(eng, id, nil)
		b.pass(30*time.Minute + 5*time.Second)

		tasks, err := eng.Tasks().List(t.Context(), id)
		if err != nil || len(tasks) != 4 {
			t.Fatalf("got %d tasks, %v, want a monitor and three runs", len(tasks), err)
		}
		if m := tasks[0]; m.ID != s.Monitor || m.Kind != perdure.KindMonitor || m.State != perdure.TaskRunning || m.StateDetail == "Scheduled" || m.Spec.Schedule != s.ID {
			t.Errorf("got monitor %+v", m)
		}
		for _, run := range tasks[1:] {
			if run.Parent != s.Monitor || run.State != perdure.TaskSucceeded || run.Delivery != perdure.ToLoop || run.Wake != perdure.WakeContinue {
				t.Errorf("got run %+v", run)
			}
		}
		if err := eng.Sessions().WaitIdle(t.Context(), id); err != nil {
			t.Error(err)
		}
		end()
	})
}

// TestMonitorCancelDisablesSchedule: canceling the monitor disables its schedule with the run in
// flight, in one commit (SC28); and deleting the schedule ends the monitor.
func TestMonitorCancelDisablesSchedule(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"cancel", "delete"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBell(t)
				b.takes = time.Hour
				eng, end := b.start(faulty.Plan{})
				id := b.session(eng)
				s := b.monitor(eng, id, nil)
				b.pass(10*time.Minute + time.Second)

				err := eng.Schedules().Delete(t.Context(), "sched_other", "ada")
				if !errors.Is(err, perdure.NotFound) {
					t.Errorf("another one: got %v", err)
				}
				if way == "delete" {
					err = eng.Schedules().Delete(t.Context(), s.ID, "ada")
				} else {
					_, err = eng.Tasks().Cancel(t.Context(), s.Monitor, "ada", "enough")
				}
				if err != nil {
					t.Fatal(err)
				}
				b.pass(time.Minute)

				tasks, err := eng.Tasks().List(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range tasks {
					if task.State != perdure.TaskCanceled {
						t.Errorf("got %s %s: %s", task.Kind, task.ID, task.State)
					}
				}
				now, err := eng.Schedules().Get(t.Context(), s.ID)
				if way == "delete" != errors.Is(err, perdure.NotFound) || now.Enabled {
					t.Errorf("got %+v, %v", now, err)
				}
				end()
			})
		})
	}
}

// TestMonitorOneShot takes the terminal state of its child (SC28), also of one whose tool failed.
func TestMonitorOneShot(t *testing.T) {
	t.Parallel()
	for fails, want := range map[bool]perdure.TaskState{false: perdure.TaskSucceeded, true: perdure.TaskFailed} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBell(t)
				b.fails = fails
				eng, end := b.start(faulty.Plan{})
				s := b.monitor(eng, b.session(eng), func(s *perdure.Schedule) { s.Cron, s.At = "", time.Now().Add(time.Minute) })
				b.pass(2 * time.Minute)

				m, err := eng.Tasks().Get(t.Context(), s.Monitor)
				if err != nil || m.State != want || len(b.rang()) != 1 {
					t.Errorf("got %s, %v after %d runs, want %s", m.State, err, len(b.rang()), want)
				}
				end()
			})
		})
	}
}

// TestDeliverChanges notifies the session of a result that differs from the one before, and of the
// first result after a failure (SC27).
func TestDeliverChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		b.every(eng, id, func(s *perdure.Schedule) { s.Action.Signal, s.Action.Deliver = true, perdure.DeliverChanges })
		b.pass(5 * time.Second) // each look is a little after a run
		told := func() (n int) {
			tasks, err := eng.Tasks().List(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range tasks {
				if task.Delivered == perdure.DeliveredInjected {
					n++
				}
			}
			return n
		}
		for _, step := range []struct {
			answer string
			fails  bool
			want   int // notifications so far
		}{{"once", false, 1}, {"once", false, 1}, {"twice", false, 2}, {"twice", true, 3}, {"twice", true, 4}, {"twice", false, 5}, {"twice", false, 5}} {
			b.mu.Lock()
			b.answer, b.fails = step.answer, step.fails
			b.mu.Unlock()
			b.pass(10 * time.Minute)
			if got := told(); got != step.want {
				t.Errorf("after %+v: %d notifications", step, got)
			}
		}
		if err := eng.Sessions().WaitIdle(t.Context(), id); err != nil {
			t.Error(err)
		}
		end()
	})
}

// TestPausedSessionFiresNothing: in a session that a budget stopped, the fires of a tool, of a
// message and of a monitor are skipped_budget with the reason. Its driver wakes for each and leaves
// it paused; after a top-up they fire again (SC16, SC21).
func TestPausedSessionFiresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		// before the stop, because the model creates it
		once := b.monitor(eng, id, func(s *perdure.Schedule) { s.Cron, s.At = "", time.Now().Add(time.Minute) })
		questions := b.stopped(eng, id, budget.Period{})
		rings := b.every(eng, id, nil)
		speaks := b.every(eng, id, func(s *perdure.Schedule) { s.Action = perdure.ScheduleAction{Message: "look around"} })
		for range 3 {
			b.pass(10 * time.Minute)
			if s, err := eng.Sessions().Get(t.Context(), id); err != nil || s.Status != perdure.SessionPaused {
				t.Errorf("the session is %s, %v, want paused", s.Status, err)
			}
		}
		all := slices.Concat(b.fires(rings.ID), b.fires(speaks.ID), b.fires(once.ID))
		for _, f := range all {
			if f.Outcome != perdure.SkippedBudget || !strings.Contains(f.Reason, string(questions.ID)) || f.Task != "" || f.Message != "" {
				t.Errorf("got %+v", f)
			}
		}
		m, err := eng.Tasks().Get(t.Context(), once.Monitor)
		if err != nil || len(all) != 7 || len(b.rang()) != 0 || m.State != perdure.TaskFailed {
			t.Errorf("got %d rows, %d runs, the monitor %s, %v", len(all), len(b.rang()), m.State, err)
		}
		questions.Limit = budget.Whole(100)
		if _, err := eng.Budgets().Set(t.Context(), questions.Budget, "ada"); err != nil {
			t.Fatal(err)
		}
		b.pass(10 * time.Minute)
		if s, err := eng.Schedules().Get(t.Context(), speaks.ID); err != nil || s.Count != 1 || len(b.rang()) != 1 {
			t.Errorf("afterwards: got %+v, %v, %d runs", s, err, len(b.rang()))
		}
		if s, err := eng.Sessions().Get(t.Context(), id); err != nil || s.Status != perdure.SessionIdle {
			t.Errorf("afterwards the session is %s, %v", s.Status, err)
		}
		end()
	})
}

// TestFireOfANewPeriod: a fire at the moment when the period of a budget starts again is carried
// out, although the session has not been resumed yet (SC21).
func TestFireOfANewPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		b.pass(time.Minute) // so that no beat comes at the hour
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		daily, err := budget.ParsePeriod("day")
		if err != nil {
			t.Fatal(err)
		}
		b.stopped(eng, id, daily)
		s := b.every(eng, id, func(s *perdure.Schedule) {
			s.Cron, s.Action = "0 */12 * * *", perdure.ScheduleAction{Message: "look around"}
		})
		b.pass(24 * time.Hour) // noon, and midnight

		fires := b.fires(s.ID)
		if len(fires) != 2 || fires[0].Outcome != perdure.SkippedBudget || fires[1].Outcome != perdure.Fired {
			t.Errorf("got %+v, want a skip at noon and a fire at midnight", fires)
		}
		end()
	})
}

// stopped sets a budget for one model request, and makes two.
func (b *bell) stopped(eng *local.Engine, id perdure.SessionID, in budget.Period) budget.Standing {
	b.Helper()
	of := budget.Budget{Subject: budget.Subject{Scope: budget.Session, ID: string(id)}, Currency: budget.ModelCalls, Limit: budget.Whole(1), Period: in}
	set, err := eng.Budgets().Set(b.Context(), of, "ada")
	for _, word := range []string{"one", "two"} {
		if err == nil {
			_, err = eng.Send(b.Context(), id, perdure.Text(word))
		}
		b.pass(time.Second)
	}
	s, failed := eng.Sessions().Get(b.Context(), id)
	if err := errors.Join(err, failed); err != nil || s.Status != perdure.SessionPaused {
		b.Fatalf("the session is %s, %v, want paused", s.Status, err)
	}
	return set
}
