package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// looks is a store that records when it is read for all workers. Only a scan for orphans reads
// them, more than once at the same time.
type looks struct {
	store.Store
	mu sync.Mutex
	at []time.Time // guarded by mu
}

type lookedAt struct {
	store.Reader
	by *looks
}

// lookedAtWorkers overrides a part of one noun.
type lookedAtWorkers struct {
	store.WorkerReader
	lookedAt
}

func (r lookedAt) Workers() store.WorkerReader { return lookedAtWorkers{r.Reader.Workers(), r} }

func (l *looks) View(ctx context.Context, fn func(store.Reader) error) error {
	return l.Store.View(ctx, func(r store.Reader) error { return fn(lookedAt{r, l}) })
}

func (r lookedAtWorkers) List() ([]store.Worker, error) {
	r.by.mu.Lock()
	defer r.by.mu.Unlock()
	if now := time.Now(); len(r.by.at) == 0 || !r.by.at[len(r.by.at)-1].Equal(now) {
		r.by.at = append(r.by.at, now)
	}
	return r.WorkerReader.List()
}

// since counts the scans after a moment.
func (l *looks) since(at time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, look := range l.at {
		if look.After(at) {
			n++
		}
	}
	return n
}

// lookout is a worker whose scans are counted.
type lookout struct {
	*member
	looks *looks
}

// watchers are three workers over one store that only scan for orphans. They start one after
// another.
func watchers(t *testing.T, st store.Store, tools *tool.Registry) (all []lookout) {
	t.Helper()
	office := newOffice()
	for i := range 3 {
		all = append(all, watcher(t, office.desk(fmt.Sprint("worker_", i), &looks{Store: st}, 0, false), tools, local.Workers{Shared: true}))
		pass(1300 * time.Millisecond)
	}
	return all
}

// watcher is a worker that only scans for orphans. The store of its desk counts its scans.
func watcher(t *testing.T, d *desk, tools *tool.Registry, cfg local.Workers) lookout {
	t.Helper()
	l := lookout{looks: d.Store.(*looks), member: &member{desk: d, ended: make(chan error, 1)}}
	eng, err := local.Open(t.Context(), local.Config{Store: d, Model: obedient{}, Tools: tools, Workers: cfg, Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l.eng, l.stop = eng, stop
	go func() { l.ended <- eng.Run(ctx) }()
	return l
}

// TestATransientWorkerLooksForOrphans: while no worker leads, a transient one scans as often as a
// leader does, and not at every look at the connections.
func TestATransientWorkerLooksForOrphans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newOffice().desk("worker", &looks{Store: memory.New(memory.Config{})}, 0, false)
		one := watcher(t, d, tool.NewRegistry(), local.Workers{Shared: true, Transient: true})
		synctest.Wait()
		begun := time.Now()
		pass(time.Minute)
		if n := one.looks.since(begun); n < 11 || n > 13 {
			t.Errorf("%d looks in a minute, want one in 5 s", n)
		}
		if err := one.leave(); err != nil {
			t.Error(err)
		}
	})
}

// scanning returns the only worker that scanned after a moment, and how often.
func scanning(t *testing.T, all []lookout, at time.Time) (one lookout, n int) {
	t.Helper()
	for _, l := range all {
		if m := l.looks.since(at); m > 0 {
			if n > 0 {
				t.Errorf("%s looked %d times, and %s %d times", one.name, n, l.name, m)
			}
			one, n = l, m
		}
	}
	return one, n
}

// TestOneLooksForOrphans is the election of RC12: of three workers one scans, every 5 s. When it is
// paused, or ends, another one does within a lease and a pass, and only one.
func TestOneLooksForOrphans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := watchers(t, memory.New(memory.Config{}), tool.NewRegistry())
		begun := time.Now()
		pass(time.Minute)
		first, n := scanning(t, all, begun)
		if n < 11 || n > 13 {
			t.Fatalf("%d looks in a minute, want one in 5 s", n)
		}

		first.freeze()
		paused := time.Now()
		living := slices.DeleteFunc(slices.Clone(all), func(l lookout) bool { return l.member == first.member })
		pass(15*time.Second + time.Millisecond) // a lease and a pass
		second, n := scanning(t, living, paused)
		if n == 0 {
			t.Fatal("no worker scans while the scanning one is paused")
		}
		pass(time.Minute)
		if _, n := scanning(t, living, paused); n < 12 || n > 15 {
			t.Errorf("%d looks in 75 s, want one in 5 s", n)
		}
		first.thaw()
		if err := <-first.ended; !errors.Is(err, perdure.Lost) {
			t.Errorf("the paused one ended with %v, want lost", err)
		}

		if err := second.leave(); err != nil {
			t.Error(err)
		}
		ended := time.Now()
		pass(5*time.Second + time.Millisecond) // its lease was handed back
		third, n := scanning(t, living, ended)
		if n == 0 || third.member == second.member {
			t.Errorf("no worker scans after the scanning one has ended")
		}
		if err := third.leave(); err != nil {
			t.Error(err)
		}
	})
}

// addOrphan adds task number i, of the tool "never", that a dead worker ran.
func addOrphan(tx store.Tx, session perdure.SessionID, i int) error {
	task := perdure.Task{
		ID: perdure.TaskID(fmt.Sprintf("task_%03d", i)), Session: session, RootSession: session, Tool: "never", Class: perdure.AtMostOnce,
		Lane: perdure.Background, Spec: perdure.TaskSpec{Tool: "never", Arguments: []byte(`{}`)},
		State: perdure.TaskRunning, Attempt: 1, Executions: 1, Worker: "worker_dead", Delivery: perdure.Manual,
	}
	task.Run = perdure.RunID(fmt.Sprintf("run_%03d", i))
	call := perdure.Call{Key: task.LedgerKey(), Task: task.ID, Attempt: 1, Tool: "never", Class: perdure.AtMostOnce, Token: "old", Worker: "worker_dead"}
	if _, _, err := tx.Tasks().Create(task); err != nil {
		return err
	}
	_, _, err := tx.Calls().Claim(call, func(perdure.WorkerID) bool { return false })
	return err
}

// never is a tool that must not run again.
func never() tool.Tool {
	return tool.NewBackground(tool.Spec{Name: "never", Description: "A fixture.", Class: perdure.AtMostOnce},
		func(context.Context, struct{}, tool.Env) (string, error) { return "", errors.New("it ran") })
}

// TestManyOrphans has a worker die with more tasks than one pass takes over: the next pass follows
// at once, not 5 s later.
func TestManyOrphans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tasks = 230
		st := memory.New(memory.Config{})
		all := watchers(t, st, tool.NewRegistry(never()))
		session, err := all[0].eng.Sessions().Create(t.Context(), perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		err = st.InTx(t.Context(), func(tx store.Tx) error {
			for i := range tasks {
				if err := addOrphan(tx, session.ID, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}

		pass(5*time.Second + time.Millisecond) // a pass
		synctest.Wait()

		err = st.View(t.Context(), func(r store.Reader) error {
			ended, err := r.Tasks().Count(perdure.TaskUnknown, "")
			if err == nil && (len(ended) != 1 || ended[0].N != tasks) {
				t.Errorf("%v were judged within a pass, want %d", ended, tasks)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		for _, l := range all {
			if err := l.leave(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestALateScannerIsReplaced has a live worker that stops scanning: another one scans, half a pass
// after it was due.
func TestALateScannerIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		begun := time.Now()
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			_, err := tx.Files().Put("orphan_scans", store.File{Path: "/last", Content: []byte("worker_late"), Encoding: store.EncodingText})
			return errors.Join(err, tx.Workers().Put(store.Worker{ID: "worker_late", LeaseUntil: tx.Now().Add(time.Hour)}))
		})
		if err != nil {
			t.Fatal(err)
		}
		all := watchers(t, st, tool.NewRegistry())
		for _, l := range all {
			if n := l.looks.since(begun.Add(2*time.Second + 600*time.Millisecond)); n > 0 {
				t.Errorf("%s looks beside one that does", l.name)
			}
		}
		after := time.Now()
		pass(10 * time.Second)
		if _, n := scanning(t, all, after); n == 0 {
			t.Error("no worker scans")
		}
		for _, l := range all {
			if err := l.leave(); err != nil {
				t.Error(err)
			}
		}
	})
}
