package local_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
)

// monitor makes a schedule with a monitor, twice with the same call: it is one.
func (b *bell) monitor(eng *local.Engine, id perdure.SessionID, change func(*perdure.Schedule)) perdure.Schedule {
	b.Helper()
	s := perdure.Schedule{
		Session: id, Title: "Watch", Cron: "*/10 * * * *", Overlap: perdure.OverlapAllow,
		Action: perdure.ScheduleAction{Tool: "ring", Args: []byte(`{}`), Signal: true},
	}
	if change != nil {
		change(&s)
	}
	first, err := eng.CreateMonitor(b.Context(), s, "call_1")
	again, twice := eng.CreateMonitor(b.Context(), s, "call_1")
	if err := errors.Join(err, twice); err != nil || first.ID != again.ID || first.Monitor == "" {
		b.Fatalf("got %+v and %+v, %v", first, again, err)
	}
	return first
}

// TestMonitor runs its tool directly, in children that come home, and stays running (SC23, SC25, SC27, SC28).
func TestMonitor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		s := b.monitor(eng, id, nil)
		b.pass(30*time.Minute + 5*time.Second)

		tasks, err := eng.Tasks(t.Context(), id)
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
		if err := eng.WaitIdle(t.Context(), id); err != nil {
			t.Error(err)
		}
		end()
	})
}

// TestMonitorCancelDisablesSchedule, with the run in flight, in one commit (SC28); and deleting the schedule ends the monitor.
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

				err := eng.DeleteSchedule(t.Context(), "sched_other", "ada")
				if !errors.Is(err, perdure.NotFound) {
					t.Errorf("another one: got %v", err)
				}
				if way == "delete" {
					err = eng.DeleteSchedule(t.Context(), s.ID, "ada")
				} else {
					_, err = eng.CancelTask(t.Context(), s.Monitor, "ada", "enough")
				}
				if err != nil {
					t.Fatal(err)
				}
				b.pass(time.Minute)

				tasks, err := eng.Tasks(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range tasks {
					if task.State != perdure.TaskCanceled {
						t.Errorf("got %s %s: %s", task.Kind, task.ID, task.State)
					}
				}
				now, err := eng.Schedule(t.Context(), s.ID)
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

				m, err := eng.Task(t.Context(), s.Monitor)
				if err != nil || m.State != want || len(b.rang()) != 1 {
					t.Errorf("got %s, %v after %d runs, want %s", m.State, err, len(b.rang()), want)
				}
				end()
			})
		})
	}
}

// TestDeliverChanges tells the session of a result that differs from the one before, and of what comes after a failure (SC27).
func TestDeliverChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		b.every(eng, id, func(s *perdure.Schedule) { s.Action.Signal, s.Action.Deliver = true, perdure.DeliverChanges })
		b.pass(5 * time.Second) // each look is a little after a run
		told := func() (n int) {
			tasks, err := eng.Tasks(t.Context(), id)
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
			want   int // told so far
		}{{"once", false, 1}, {"once", false, 1}, {"twice", false, 2}, {"twice", true, 3}, {"twice", true, 4}, {"twice", false, 5}, {"twice", false, 5}} {
			b.mu.Lock()
			b.answer, b.fails = step.answer, step.fails
			b.mu.Unlock()
			b.pass(10 * time.Minute)
			if got := told(); got != step.want {
				t.Errorf("after %+v: told %d times", step, got)
			}
		}
		if err := eng.WaitIdle(t.Context(), id); err != nil {
			t.Error(err)
		}
		end()
	})
}

// TestPausedSessionFiresNothing: a fire, a monitor's one and one by hand are skipped_budget with the reason, and later ones fire again (SC21).
func TestPausedSessionFiresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		s := b.every(eng, id, nil)
		once := b.monitor(eng, id, func(s *perdure.Schedule) { s.Cron, s.At = "", time.Now().Add(time.Minute) })
		status := func(to perdure.SessionStatus) {
			err := b.st.InTx(t.Context(), func(tx store.Tx) error { return tx.SaveSession(id, "", to) })
			if err != nil {
				t.Fatal(err)
			}
		}
		b.pass(time.Second)                                                                     // its driver rests
		for _, d := range []time.Duration{5 * time.Minute, 10 * time.Minute, 6 * time.Minute} { // a fire in each
			status(perdure.SessionPaused)
			b.pass(d)
		}
		status(perdure.SessionPaused)
		byHand, err := eng.TriggerSchedule(t.Context(), s.ID, "ada")
		if err != nil || byHand.Outcome != perdure.SkippedBudget || byHand.Reason == "" {
			t.Errorf("by hand: got %+v, %v", byHand, err)
		}
		fires := append(b.fires(s.ID), b.fires(once.ID)...)
		for _, f := range fires {
			if f.Outcome != perdure.SkippedBudget || f.Reason == "" || f.Task != "" {
				t.Errorf("got %+v", f)
			}
		}
		m, err := eng.Task(t.Context(), once.Monitor)
		if err != nil || len(fires) != 4 || len(b.rang()) != 0 || m.State != perdure.TaskFailed {
			t.Errorf("got %d rows, %d runs, the monitor %s, %v", len(fires), len(b.rang()), m.State, err)
		}
		status(perdure.SessionIdle)
		b.pass(20 * time.Minute) // 00:30 and 00:40
		if now, err := eng.Schedule(t.Context(), s.ID); err != nil || now.Count != 2 || len(b.rang()) != 2 {
			t.Errorf("afterwards: got %+v, %v, %d runs", now, err, len(b.rang()))
		}
		end()
	})
}
