package local_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// jumpingClock is a wall clock that jumps every few commits and returns. It is safe for concurrent
// use.
type jumpingClock struct {
	every int64 // commits and views between jumps
	reads atomic.Int64
	jumps []time.Duration
}

// now is the time of the clock: the machine's time plus an offset.
func (c *jumpingClock) now() time.Time {
	n := c.reads.Add(1) / c.every
	return time.Now().Add(c.jumps[n%int64(len(c.jumps))])
}

// TestR11ClockJumps lets the wall clock of the store jump at commits, far and near, forwards and
// backwards, while turns, tools and tasks run and while one engine dies and another takes over.
// Nothing is done twice, lost or stuck, and every journal stays in order.
func TestR11ClockJumps(t *testing.T) {
	t.Parallel()
	now := time.Now()
	to1970, to2038 := time.Unix(1, 0).Sub(now), time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC).Sub(now)
	for name, jumps := range map[string][]time.Duration{
		"a second":            {0, time.Second, -time.Second},
		"an hour":             {0, time.Hour, 0, -time.Hour},
		"a day":               {0, 24 * time.Hour, 0, -24 * time.Hour},
		"to 1970 and to 2038": {0, to1970, 0, to2038},
		"back at each commit": {5 * time.Second, 4 * time.Second, 3 * time.Second, 2 * time.Second, time.Second, 0},
	} {
		for _, every := range []int64{1, 7, 23} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				jumpThrough(t, &jumpingClock{every: every, jumps: jumps})
			})
		}
	}
}

// jumpThrough runs a few sessions over a store with this clock, and kills the engine in the middle.
func jumpThrough(t *testing.T, clock *jumpingClock) {
	st := memory.New(memory.Config{Now: clock.now})
	setup := enginetest.Setup{Script: `
rules:
  - when: {last_role: notification}
    text: home
  - when: {last_role: user, user_contains: background}
    calls: [{name: spawn_background, args: {tool: charge, args: {text: '{{user}}'}}}]
  - when: {last_role: user}
    calls: [{name: charge, args: {text: '{{user}}'}}, {name: note, args: {text: '{{user}}'}}]
steps:
  - text: done
    repeat: true
`}
	w := newWorld(t, setup, func(*testing.T) store.Store { return st }, func(store.Store) {})
	eng := w.Start(t)
	var sessions []perdure.SessionID
	said := func(eng engine.Engine, id perdure.SessionID, text string) {
		if _, err := eng.Send(t.Context(), id, perdure.Text(text)); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s.ID)
		said(eng, s.ID, "first")
		said(eng, s.ID, "background")
	}
	if err := eng.Sessions().WaitIdle(t.Context(), sessions[0]); err != nil {
		t.Fatal(err)
	}
	w.Kill(t)
	eng = w.Start(t)
	var record chaos.Record
	for _, id := range sessions {
		said(eng, id, "last")
		if err := eng.Sessions().WaitIdle(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		var events []perdure.Event
		err := st.View(t.Context(), func(r store.Reader) (err error) {
			events, err = r.Journal().Events(id, 0, 10_000)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		record.Journals = append(record.Journals, chaos.Journal{Session: id, Events: events})
	}

	for _, v := range chaos.Check(record) {
		t.Errorf("%s: %s %s", v.Invariant, v.Session, v.Text)
	}
	for _, j := range record.Journals {
		completed := 0
		for _, e := range j.Events {
			if _, ok := e.Fact.(perdure.ToolCompleted); ok {
				completed++
			}
			if text, err := perdure.EncodeEvent(e); err != nil || strings.Contains(string(text), `"duration_ms":-`) {
				t.Errorf("it took less than no time: %s, %v", text, err)
			}
		}
		if completed == 0 {
			t.Errorf("%s: no tool has ended, so nothing was at stake", j.Session)
		}
	}
}
