package local_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// TestGrantOfEndedProcess: the process of an owner has ended, and its lease has not expired. The
// next grant takes its session and its task at once, without the right to evict (RC31, GR2).
func TestGrantOfEndedProcess(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, migrated)
	setup := enginetest.Setup{Script: oneHold("hold_note"), Beat: 20 * time.Millisecond}
	outside := enginerig.NewOutside()
	t.Cleanup(outside.ReleaseAll)
	one, other := openEnded(t, url, setup, outside), openEnded(t, url, setup, outside)
	s, err := one.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = one.Send(t.Context(), s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = one.Drive(t.Context(), s.ID, host.Grant{Number: 1}) }() // its process ends meanwhile
	outside.Entered(t, "hold_note", 1)
	awaitPresent(t, url, 2)
	other.seen(t)

	one.end(t)
	outside.ReleaseAll()
	awaitPresent(t, url, 1)
	left, err := other.Drive(t.Context(), s.ID, host.Grant{Number: 2})

	if err != nil || left.Present || left.Grant != 2 {
		t.Errorf("got %+v, %v", left, err)
	}
}

// endedEngine is an engine under grants over connections of its own.
type endedEngine struct {
	*local.Granted
	store *enginerig.KillableStore
	pg    *postgres.Store
	stop  context.CancelFunc
	ended chan error // capacity 1
}

func openEnded(t *testing.T, url string, setup enginetest.Setup, outside *enginerig.Outside) *endedEngine {
	t.Helper()
	pg, err := postgres.Open(t.Context(), postgres.Config{URL: url, Writers: 3, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Parse("ended", []byte(setup.Script))
	if err != nil {
		t.Fatal(err)
	}
	e := &endedEngine{pg: pg, store: enginerig.NewKillableStore(pg, new(atomic.Int64), death{}), ended: make(chan error, 1)}
	if e.Granted, err = local.OpenGranted(t.Context(), enginerig.Config(setup, e.store, m, outside.Tools()), quietScheduler{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	e.stop = stop
	go func() { e.ended <- e.Run(ctx) }()
	<-e.Started()
	t.Cleanup(func() { e.end(t) })
	return e
}

// end ends the engine like a crash of its process, once: nothing more reaches the store, and its
// connections are closed.
func (e *endedEngine) end(t *testing.T) {
	t.Helper()
	if e.pg == nil {
		return
	}
	e.store.Kill()
	e.stop()
	<-e.ended
	if err := e.pg.Close(); err != nil {
		t.Error(err)
	}
	e.pg = nil
}

// seen waits until this engine has looked at the connections once since a worker registered: it
// looks after each heartbeat, so two more heartbeats show it.
func (e *endedEngine) seen(t *testing.T) {
	t.Helper()
	leases := map[time.Time]bool{}
	for len(leases) < 3 {
		row, err := store.Read(t.Context(), e.pg, func(r store.Reader) (store.Worker, error) { return r.Workers().Get(e.Worker()) })
		if err != nil {
			t.Fatal(err)
		}
		leases[row.LeaseUntil] = true
		<-time.After(5 * time.Millisecond)
	}
}

// awaitPresent waits until this many workers are connected, as the database knows.
func awaitPresent(t *testing.T, url string, want int) {
	t.Helper()
	for got := -1; got != want; <-time.After(5 * time.Millisecond) {
		var err error
		if got, err = pgtest.Shared(t).AdvisoryLocks(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
}

// quietScheduler is a scheduler that gives out nothing by itself.
type quietScheduler struct{}

func (quietScheduler) Wake(perdure.SessionID) {}
func (quietScheduler) StartQueued()           {}
func (quietScheduler) Name() string           { return "temporal:test/quietScheduler" }
