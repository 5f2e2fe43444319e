package local_test

import (
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
)

// A call whose outcome is being looked for after a crash is not made again: between the take-over
// and the commit that says unknown, the same call joins it.
func TestRepeatDuringTakeOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: "steps: [{text: done, repeat: true}]"})
	order := engine.HostCallRequest{Session: r.id, Tool: "hold_charge"}
	made, err := r.eng.HostCalls().Start(r.ctx, order)
	if err != nil {
		t.Fatal(err)
	}
	r.Entered(t, "hold_charge", 1)
	var released atomic.Bool
	takenOver := make(chan struct{})
	r.st.set(func(facts []perdure.Fact) fate {
		switch {
		case has(facts, any1[perdure.TaskReattached]):
			close(takenOver)
		case has(facts, any1[perdure.TaskUpdated]) && !released.Load():
			return aborts // the outcome cannot be recorded yet
		}
		return commits
	})

	r.Kill(t)
	r.eng = r.Start(t)
	select {
	case <-takenOver:
	case <-r.ctx.Done():
		t.Fatal("the call was not taken over")
	}
	again, err := r.eng.HostCalls().Start(r.ctx, order)

	if err != nil || again.ID != made.ID || !again.Joined {
		t.Errorf("got %+v, %v, want to join %s", again, err, made.ID)
	}
	released.Store(true)
	ended, err := r.eng.HostCalls().Wait(r.ctx, r.id, again)
	if err != nil || ended.Task.State != perdure.TaskUnknown || len(r.Effects("hold_charge")) != 1 {
		t.Errorf("got %+v, %v, %d effects; want one whose outcome is unknown", ended.Task, err, len(r.Effects("hold_charge")))
	}
}
