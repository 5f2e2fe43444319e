package local_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// grantRig is two engines that work only when the test says so.
type grantRig struct {
	*grantedWorld
	t       *testing.T
	a, b    *grantedEngine
	session perdure.SessionID
}

func newGrantRig(t *testing.T, s enginetest.Setup) *grantRig {
	t.Helper()
	w := newGrantedWorld(t, s, memory.New(memory.Config{}))
	w.scheduler.quiet = true
	eng := w.Start(t)
	made, err := eng.Sessions().Create(t.Context(), perdure.Agent{Instructions: "You are tested."})
	if err != nil {
		t.Fatal(err)
	}
	r := &grantRig{grantedWorld: w, t: t, a: w.engines[0], b: w.engines[1], session: made.ID}
	r.say("go")
	return r
}

func (r *grantRig) say(text string) {
	r.t.Helper()
	if _, err := r.a.Send(r.t.Context(), r.session, perdure.Text(text)); err != nil {
		r.t.Fatal(err)
	}
}

// driven is the answer of a call of Drive.
type driven struct {
	left host.Left
	err  error
}

// drive calls Drive in a goroutine.
func (r *grantRig) drive(ctx context.Context, e *grantedEngine, g host.Grant) <-chan driven {
	done := make(chan driven, 1)
	go func() {
		left, err := e.Drive(ctx, r.session, g)
		done <- driven{left, err}
	}()
	return done
}

// get waits for an answer.
func (r *grantRig) get(done <-chan driven) driven {
	r.t.Helper()
	select {
	case d := <-done:
		return d
	case <-time.After(time.Minute):
		r.t.Fatal("Drive did not return")
		return driven{}
	}
}

// call returns the only call of the session.
func (r *grantRig) call() perdure.Call {
	r.t.Helper()
	calls, err := r.a.Calls().List(r.t.Context(), r.session)
	if err != nil || len(calls) != 1 {
		r.t.Fatalf("got %d calls, %v, want one", len(calls), err)
	}
	return calls[0]
}

// TestGrantOfAnother: a session that an engine drives is not taken without Evict, and the grant is
// not used up by that. The next one lets the owner continue.
func TestGrantOfAnother(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_charge")})
	first := r.drive(t.Context(), r.a, host.Grant{Number: 1})
	r.Entered(t, "hold_charge", 1)

	if d := r.get(r.drive(t.Context(), r.b, host.Grant{Number: 2})); d.err != nil || !d.left.Present || d.left.Grant != 1 {
		t.Errorf("of an owner that is alive: got %+v", d)
	}
	if d := r.get(r.drive(t.Context(), r.b, host.Grant{Number: 1, Evict: true})); !errors.Is(d.err, host.StaleGrant) || d.left.Grant != 1 {
		t.Errorf("under the grant of the owner: got %+v", d)
	}
	r.Release("hold_charge")
	if d := r.get(first); d.err != nil || d.left.Grant != 1 || d.left.Home != "" {
		t.Errorf("of the owner: got %+v", d)
	}
	if got := r.call(); got.State != perdure.CallSettled || len(r.Effects("hold_charge")) != 1 {
		t.Errorf("got %+v", got)
	}
}

// TestGrantWoken: a driver that was woken before it read the journal has followed that when it
// ends. Otherwise it would drive an idle session again and again.
func TestGrantWoken(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_note")})
	r.Release("hold_note")
	if d := r.get(r.drive(t.Context(), r.a, host.Grant{Number: 1})); d.err != nil {
		t.Fatal(d.err)
	}
	d := r.a.NewDriver(r.session)
	d.Use(host.Grant{Number: 2})
	d.Wake()

	err := d.Run(t.Context())

	if err != nil || d.Pending() {
		t.Errorf("got %v; it wants to run again: %t", err, d.Pending())
	}
}

// TestGrantEvicts: an owner that was evicted writes nothing any more, and its call is unknown.
func TestGrantEvicts(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_charge")})
	first := r.drive(t.Context(), r.a, host.Grant{Number: 1})
	r.Entered(t, "hold_charge", 1)

	second := r.get(r.drive(t.Context(), r.b, host.Grant{Number: 2, Evict: true}))
	if second.err != nil || second.left.Grant != 2 {
		t.Errorf("of the next owner: got %+v", second)
	}
	r.Release("hold_charge")
	if d := r.get(first); !errors.Is(d.err, perdure.Lost) || d.left.Grant != 2 {
		t.Errorf("of the evicted owner: got %+v", d)
	}
	if got := r.call(); got.State != perdure.CallUnknown || len(r.Effects("hold_charge")) != 1 {
		t.Errorf("got %+v", got)
	}
}

// TestGrantJoins: under the next grant a driver of the same process continues undisturbed, also
// when the call of Drive that started it has ended.
func TestGrantJoins(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_charge")})
	ctx, stop := context.WithCancel(t.Context())
	first := r.drive(ctx, r.a, host.Grant{Number: 1})
	r.Entered(t, "hold_charge", 1)
	second := r.drive(t.Context(), r.a, host.Grant{Number: 2})
	r.granted(store.Work{Session: r.session}, 2)
	stop()
	if d := r.get(first); !errors.Is(d.err, context.Canceled) {
		t.Errorf("of the first: got %+v", d)
	}
	r.Release("hold_charge")
	if d := r.get(second); d.err != nil || d.left.Grant != 2 {
		t.Errorf("of the second: got %+v", d)
	}
	if got := r.call(); got.State != perdure.CallSettled || got.Executions != 1 {
		t.Errorf("got %+v", got)
	}
}

// granted waits until a grant was used.
func (r *grantRig) granted(w store.Work, number int64) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; sleep(r.t.Context(), time.Millisecond) {
		last, err := store.Read(r.t.Context(), r.shared, func(v store.Reader) (int64, error) { return v.Workers().Granted(w) })
		if err != nil || time.Now().After(end) {
			r.t.Fatalf("grant %d was not used: %d, %v", number, last, err)
		}
		if last >= number {
			return
		}
	}
}

// TestGrantReleases: when the context of Drive ends, the calls of its session are given up without
// an end, and the next owner judges them.
func TestGrantReleases(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_note")})
	ctx, stop := context.WithCancel(t.Context())
	first := r.drive(ctx, r.a, host.Grant{Number: 1})
	r.Entered(t, "hold_note", 1)
	stop()
	if d := r.get(first); !errors.Is(d.err, context.Canceled) {
		t.Errorf("of the first: got %+v", d)
	}
	if got := r.call(); got.State != perdure.CallRunning {
		t.Errorf("after the first: got %+v", got)
	}
	second := r.drive(t.Context(), r.b, host.Grant{Number: 2, Evict: true})
	r.Entered(t, "hold_note", 2)
	r.Release("hold_note")
	if d := r.get(second); d.err != nil {
		t.Errorf("of the second: got %+v", d)
	}
	if got := r.call(); got.State != perdure.CallSettled || got.Executions != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestGrantOfATask: a run is queued until it is granted, one engine runs it, a cancel at the other
// engine reaches it, and a stale grant takes nothing.
func TestGrantOfATask(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: spawnHold})
	if d := r.get(r.drive(t.Context(), r.a, host.Grant{Number: 1})); d.err != nil {
		t.Fatal(d.err)
	}
	due, err := r.b.DueRuns(t.Context(), r.session)
	if err != nil || len(due) != 1 {
		t.Fatalf("got %+v, %v, want one run", due, err)
	}
	type ran struct {
		left host.Left
		err  error
	}
	done := make(chan ran, 1)
	go func() {
		left, err := r.b.RunTask(t.Context(), due[0].ID, host.Grant{Number: 1})
		done <- ran{left, err}
	}()
	r.Entered(t, "bg_hold", 1)
	if left, err := r.a.RunTask(t.Context(), due[0].ID, host.Grant{Number: 1}); !errors.Is(err, host.StaleGrant) && !left.Present {
		t.Errorf("under a stale grant: got %+v, %v", left, err)
	}
	if receipt, err := r.a.Tasks().Cancel(t.Context(), due[0].ID, "user", ""); err != nil || receipt.RequestedAt.IsZero() {
		t.Errorf("got %+v, %v", receipt, err)
	}
	select {
	case got := <-done:
		if got.err != nil || !got.left.Ended {
			t.Errorf("got %+v", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("the cancel did not reach the run")
	}
	if task, err := r.a.Tasks().Get(t.Context(), due[0].ID); err != nil || task.State != perdure.TaskCanceled || task.Executions != 1 {
		t.Errorf("got %+v, %v", task, err)
	}
	if left, err := r.a.RunTask(t.Context(), due[0].ID, host.Grant{Number: 9}); err != nil || !left.Ended {
		t.Errorf("of a task that has ended: got %+v, %v", left, err)
	}
}

// TestGrantTakenBack: what was taken back from an engine that goes on is listed by it, although its
// owner is alive.
func TestGrantTakenBack(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_note")})
	ctx, stop := context.WithCancel(t.Context())
	first := r.drive(ctx, r.a, host.Grant{Number: 1})
	r.Entered(t, "hold_note", 1)
	if _, waits, err := r.a.DueSession(t.Context(), r.session); waits || err != nil {
		t.Errorf("while it is driven: got %t, %v", waits, err)
	}
	stop()
	r.get(first)

	if w, waits, err := r.a.DueSession(t.Context(), r.session); !waits || !w.Orphaned || err != nil {
		t.Errorf("got %+v, %t, %v", w, waits, err)
	}
	if page, err := r.a.Due(t.Context(), "", 9); err != nil || len(page.Sessions) != 1 {
		t.Errorf("got %+v, %v, want the session", page, err)
	}
	second := r.drive(t.Context(), r.a, host.Grant{Number: 2})
	r.Entered(t, "hold_note", 2)
	r.Release("hold_note")
	if d := r.get(second); d.err != nil {
		t.Errorf("of the second: got %+v", d)
	}
}

// TestGrantTakenBackTask is TestGrantTakenBack for a task.
func TestGrantTakenBackTask(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: spawnHold})
	if d := r.get(r.drive(t.Context(), r.a, host.Grant{Number: 1})); d.err != nil {
		t.Fatal(d.err)
	}
	due, err := r.a.DueRuns(t.Context(), r.session)
	if err != nil || len(due) != 1 {
		t.Fatalf("got %+v, %v, want one run", due, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	run := func(ctx context.Context, g host.Grant) {
		_, err := r.a.RunTask(ctx, due[0].ID, g)
		done <- err
	}
	go run(ctx, host.Grant{Number: 1})
	r.Entered(t, "bg_hold", 1)
	if now, err := r.a.DueRuns(t.Context(), r.session); len(now) != 0 || err != nil {
		t.Errorf("while it runs: got %+v, %v", now, err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for end := time.Now().Add(time.Minute); ; sleep(t.Context(), time.Millisecond) { // its work returns soon
		if now, err := r.a.DueRuns(t.Context(), r.session); err == nil && len(now) == 1 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("got %+v, %v, want the run", now, err)
		}
	}
	go run(t.Context(), host.Grant{Number: 2})
	r.Entered(t, "bg_hold", 2)
	r.Release("bg_hold")
	if err := <-done; err != nil {
		t.Errorf("of the second: %v", err)
	}
}

// oneHold is a script that calls one tool.
func oneHold(tool string) string {
	return "steps:\n  - calls: [{name: " + tool + ", args: {}}]\n  - text: done\n    repeat: true\n"
}

// spawnHold starts a background run.
const spawnHold = `
steps:
  - calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}]
  - text: it goes on
    repeat: true
`

// TestGrantOfASubagent: when a subagent has ended, so has the drive of its session, although the
// report to its parent wakes the driver.
func TestGrantOfASubagent(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneSubagent})
	parent := r.drive(t.Context(), r.a, host.Grant{Number: 1})
	var child perdure.SessionID
	for end := time.Now().Add(time.Minute); child == ""; sleep(t.Context(), time.Millisecond) {
		page, err := r.a.Due(t.Context(), "", 9)
		if err != nil || time.Now().After(end) {
			t.Fatalf("no subagent is due, but %+v: %v", page, err)
		}
		for _, s := range page.Sessions {
			if s.ID != r.session {
				child = s.ID
			}
		}
	}
	r.session, child = child, r.session

	if d := r.get(r.drive(t.Context(), r.a, host.Grant{Number: 1})); d.err != nil {
		t.Errorf("of the subagent: got %+v", d)
	}
	if d := r.get(parent); d.err != nil {
		t.Errorf("of its parent: got %+v", d)
	}
	if calls, err := r.a.Calls().List(t.Context(), child); err != nil || len(calls) != 1 || calls[0].State != perdure.CallSettled {
		t.Errorf("got %+v, %v", calls, err)
	}
}

// oneSubagent is a script that starts a subagent in the foreground.
const oneSubagent = `
rules:
  - when: {user_contains: go, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: scout, task: look at it}}]
steps:
  - text: done
    repeat: true
`
