package local_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
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
