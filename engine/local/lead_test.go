package local_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// pair is a leader and a standby over one store, in virtual time.
type pair struct {
	*round
	leader, standby *member
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{round: newRound(t, 1, clockRings)}
	p.leader = p.join("leader", 0, false)
	synctest.Wait()
	p.standby = p.join("standby", 0, false)
	synctest.Wait()
	p.begin(p.standby)
	return p
}

// end stops both, and reports what went wrong.
func (p *pair) end(members ...*member) {
	p.t.Helper()
	for _, m := range members {
		if err := m.leave(); err != nil {
			p.t.Errorf("%s ended with %v", m.name, err)
		}
	}
	for _, wrong := range p.office.problems() {
		p.t.Error(wrong)
	}
}

// workers returns the workers that claimed the calls and tasks of the session.
func (p *pair) workers() map[perdure.WorkerID]int {
	p.t.Helper()
	found := map[perdure.WorkerID]int{}
	err := p.st.View(p.t.Context(), func(r store.Reader) error {
		calls, err := r.Calls().List(store.CallFilter{Session: p.id})
		for _, c := range calls {
			found[c.Worker]++
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return found
}

// TestOneWorks has a standby accept a message, a host's call, a schedule and a cancel. The leader
// does all the work, and begins at once: it does not wait for a heartbeat (RC12).
func TestOneWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		if !local.Leads(p.leader.eng) || local.Leads(p.standby.eng) {
			t.Fatalf("leader: %v, standby: %v", local.Leads(p.leader.eng), local.Leads(p.standby.eng))
		}
		ctx, begun := t.Context(), time.Now()
		p.say(p.standby, perdure.Text("note#1 bg_charge#2"))
		synctest.Wait()
		if turns := p.count("turn.started"); turns != 1 {
			t.Errorf("%d turns have begun at once, want 1", turns)
		}
		p.quiet(p.standby)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the work took %s, want twice the 1.5 s of the tools", took)
		}
		made, err := p.standby.eng.HostCalls().Start(ctx, engine.HostCallRequest{Session: p.id, Tool: "note", Args: json.RawMessage(`{"text":"3"}`)})
		if err != nil {
			t.Fatal(err)
		}
		begun = time.Now()
		if made, err = p.standby.eng.HostCalls().Wait(ctx, p.id, made); err != nil || made.Result == nil || made.Result.Error != "" {
			t.Errorf("a call through the standby: %+v, %v", made, err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("the call took %s, want 1.5 s", took)
		}
		at := time.Now().Add(time.Minute)
		if _, err := p.standby.eng.Schedules().Create(ctx, perdure.Schedule{Session: p.id, Title: "Later", At: at, Action: perdure.ScheduleAction{Message: "note#4"}}); err != nil {
			t.Fatal(err)
		}
		pass(time.Until(at))
		synctest.Wait()
		if turns := p.count("turn.started"); turns < 2 {
			t.Errorf("%d turns have begun, want that of the schedule too", turns)
		}
		p.quiet(p.standby)

		if got := p.workers(); len(got) != 1 || got[local.Worker(p.leader.eng)] < 4 {
			t.Errorf("calls by worker: %v, want all by the leader %s", got, local.Worker(p.leader.eng))
		}
		p.end(p.standby, p.leader)
	})
}

// count counts the events of a type.
func (p *pair) count(kind perdure.EventType) (n int) {
	p.t.Helper()
	events, err := p.standby.eng.Events(p.t.Context(), p.id, 0, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type() == kind {
			n++
		}
	}
	return n
}

// TestCancelThroughTheStandby stops work of the leader at once: the cancel does not wait for a
// heartbeat (RC12).
func TestCancelThroughTheStandby(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.say(p.standby, perdure.Text("bg_slow#1"))
		pass(time.Second)
		tasks, err := p.standby.eng.Tasks().List(t.Context(), p.id)
		if err != nil || len(tasks) != 1 || tasks[0].State != perdure.TaskRunning {
			t.Fatalf("tasks: %+v, %v; want one that runs", tasks, err)
		}
		if _, err := p.standby.eng.Tasks().Cancel(t.Context(), tasks[0].ID, "operator", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()

		if got, err := p.standby.eng.Tasks().Get(t.Context(), tasks[0].ID); err != nil || got.State != perdure.TaskCanceled {
			t.Errorf("the task is %s, %v; want canceled at once", got.State, err)
		}
		p.quiet(p.standby)
		p.end(p.standby, p.leader)
	})
}

// TestNotificationToTheLeaderIsLost: the leader finds the work at its next heartbeat (RC12).
func TestNotificationToTheLeaderIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.standby.mute.Store(true)
		p.say(p.standby, perdure.Text("bg_note#1"))
		pass(2*time.Second + time.Millisecond)
		synctest.Wait()

		if turns := p.count("turn.started"); turns != 1 {
			t.Errorf("%d turns have begun after a heartbeat, want 1", turns)
		}
		p.quiet(p.standby)
		p.end(p.standby, p.leader)
	})
}

// TestStandbyTakesOver ends the leader in order, and has it lose its store: the standby leads
// within a look at the connections, or after the lease (RC12, RC31).
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(*member)
		within time.Duration
	}{
		"ended_in_order": {func(m *member) { m.stop() }, time.Second},
		"frozen":         {func(m *member) { m.freeze() }, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				p.say(p.standby, perdure.Text("bg_note#1 bg_note#2"))
				pass(500 * time.Millisecond)
				c.end(p.leader)
				pass(c.within)
				synctest.Wait()
				if !local.Leads(p.standby.eng) {
					t.Errorf("the standby does not lead after %s", c.within)
				}
				p.quiet(p.standby)
				if got := p.workers()[local.Worker(p.standby.eng)]; got < 2 {
					t.Errorf("the standby has %d calls, want those of both tasks", got)
				}
				_ = p.leader.leave() // lost, where it was frozen
				p.end(p.standby)
			})
		})
	}
}

// TestStandbyWorksAtItsHome has a session whose files are at the home of the standby: it is worked
// on there, whichever worker leads (RC12, RC26).
func TestStandbyWorksAtItsHome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		w := newSharedWorld(t, holdsOnce, func(*testing.T) store.Store { return st }, func(store.Store) {})
		leader, standby := w.joinAt(t, filesAt("home_1")), w.joinAt(t, filesAt("home_2"))
		session, err := standby.Sessions().Create(t.Context(), perdure.Agent{})
		if err != nil || session.Home == nil || session.Home.ID != "home_2" {
			t.Fatalf("new session: %+v, %v", session, err)
		}
		if _, err := leader.Send(t.Context(), session.ID, perdure.Text("go")); err != nil {
			t.Fatal(err)
		}
		w.Entered(t, "bg_hold", 1)
		w.Release("bg_hold")
		if err := standby.Sessions().WaitIdle(t.Context(), session.ID); err != nil {
			t.Fatal(err)
		}
		tasks, err := leader.Tasks().List(t.Context(), session.ID)
		if err != nil || len(tasks) != 1 || tasks[0].Worker != local.Worker(standby.(*local.Engine)) {
			t.Errorf("tasks: %+v, %v; want one of the standby", tasks, err)
		}
	})
}

// TestNextProcessOfAHome kills the only worker of a database. The next process of the same data
// directory works at once: it does not wait for the lease of the former one (RC31).
func TestNextProcessOfAHome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		w := newSharedWorld(t, holdsOnce, func(*testing.T) store.Store { return st }, func(store.Store) {})
		former := w.joinAt(t, local.Storage{Home: "home_1"})
		session, err := former.Sessions().Create(t.Context(), perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := former.Send(t.Context(), session.ID, perdure.Text("go")); err != nil {
			t.Fatal(err)
		}
		w.Entered(t, "bg_hold", 1)
		w.KillEngine(t, former)

		next := w.joinAt(t, local.Storage{Home: "home_1"})
		synctest.Wait()

		if !local.Leads(next.(*local.Engine)) {
			t.Error("the next process does not lead at once")
		}
		w.Entered(t, "bg_hold", 2)
		w.Release("bg_hold")
		if err := next.Sessions().WaitIdle(t.Context(), session.ID); err != nil {
			t.Error(err)
		}
	})
}

// TestTransientWorker has a process for one command work before and while a server leads. It works
// on what it is asked for, and never takes the role of the server (RC12).
func TestTransientWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{round: newRound(t, 1, clockRings)}
		command := p.join(transient, 0, false)
		synctest.Wait()
		if !local.Leads(command.eng) {
			t.Error("the command takes over nothing although no worker leads")
		}
		server := p.join("server", 0, false)
		p.leader, p.standby = server, command
		synctest.Wait()
		if !local.Leads(server.eng) {
			t.Error("the server stands by while a command works")
		}
		pass(6 * time.Second)
		if local.Leads(command.eng) {
			t.Error("the command does other work while a server leads")
		}
		p.begin(command)
		p.say(command, perdure.Text("note#1 bg_note#2"))
		p.quiet(command)

		if got := p.workers(); len(got) != 1 || got[local.Worker(command.eng)] < 2 {
			t.Errorf("calls by worker: %v, want all by the command %s", got, local.Worker(command.eng))
		}
		p.end(command)
		p.say(server, perdure.Text("note#3"))
		p.quiet(server)
		p.end(server)
	})
}
