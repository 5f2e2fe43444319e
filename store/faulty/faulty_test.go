package faulty_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A handle without faults is a store.
func TestStore(t *testing.T) {
	t.Parallel()
	var below sync.Map // of each handle: the *memory.Store
	over := func(st store.Store, kept any) store.Store {
		handle := faulty.New(st, faulty.Plan{})
		below.Store(handle, kept)
		return handle
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			kept := memory.New(memory.Config{})
			st := over(kept, kept)
			t.Cleanup(func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			})
			return st
		},
		Reopen: func(_ *testing.T, old store.Store) store.Store {
			kept, _ := below.Load(old)
			return over(old, kept)
		},
		Traces: func(_ *testing.T, st store.Store, id perdure.SessionID) []string {
			kept, _ := below.Load(st)
			return storetest.TracesOf(reflect.ValueOf(kept).Elem().FieldByName("state"), "state", string(id))
		},
	})
}

// hire adds a worker, which shows whether its transaction was committed.
func hire(st store.Store, id perdure.WorkerID) error {
	return st.InTx(context.Background(), func(tx store.Tx) error { return tx.Workers().Put(store.Worker{ID: id}) })
}

// hired returns the workers of a store.
func hired(t *testing.T, st store.Store) (ids []perdure.WorkerID) {
	t.Helper()
	err := st.View(t.Context(), func(r store.Reader) error {
		workers, err := r.Workers().List()
		for _, w := range workers {
			ids = append(ids, w.ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// Three transactions, where the second has a fault.
func TestTransaction(t *testing.T) {
	t.Parallel()
	one, two, three := perdure.WorkerID("worker_1"), perdure.WorkerID("worker_2"), perdure.WorkerID("worker_3")
	cases := []struct {
		name  string
		fault faulty.Fault
		want  error
		dead  bool
		kept  []perdure.WorkerID
	}{
		{"pass", faulty.Fault{}, nil, false, []perdure.WorkerID{one, two, three}},
		{"fail", faulty.Fault{Act: faulty.Fail}, perdure.Unavailable, false, []perdure.WorkerID{one, three}},
		{"fail_as_conflict", faulty.Fault{Act: faulty.Fail, Kind: perdure.Conflict}, perdure.Conflict, false,
			[]perdure.WorkerID{one, three}},
		{"do_and_timeout", faulty.Fault{Act: faulty.DoAndTimeout}, faulty.Timeout, false,
			[]perdure.WorkerID{one, two, three}},
		{"die", faulty.Fault{Act: faulty.Die}, faulty.Dead, true, []perdure.WorkerID{one}},
		{"die_after", faulty.Fault{Act: faulty.DieAfter}, faulty.Dead, true, []perdure.WorkerID{one, two}},
		{"die_told", faulty.Fault{Act: faulty.DieAfterReply}, nil, true, []perdure.WorkerID{one, two}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inner := memory.New(memory.Config{})
			died := 0
			plan := faulty.Nth("InTx", 2, c.fault)
			plan.Died = func() { died++ }
			st := faulty.New(inner, plan)

			errs := []error{hire(st, one), hire(st, two), hire(st, three)}

			if errs[0] != nil || !errors.Is(errs[1], c.want) || c.dead != errors.Is(errs[2], faulty.Dead) {
				t.Errorf("got errors %v, want %v from the second", errs, c.want)
			}
			if got := hired(t, inner); !slices.Equal(got, c.kept) {
				t.Errorf("got workers %v, want %v", got, c.kept)
			}
			wantDied, wantCount := 0, 3
			if c.dead {
				wantDied, wantCount = 1, 2
			}
			if st.Dead() != c.dead || died != wantDied || st.Count("InTx") != wantCount {
				t.Errorf("got dead %t, Died called %d times, %d transactions", st.Dead(), died, st.Count("InTx"))
			}
		})
	}
}

// Every method of a transaction has its own fault.
func TestEveryMethodOfTx(t *testing.T) {
	t.Parallel()
	faults := map[error]faulty.Fault{
		perdure.Storage: {Act: faulty.Fail, Kind: perdure.Storage},
		faulty.Timeout:  {Act: faulty.DoAndTimeout},
		faulty.Dead:     {Act: faulty.Die},
	}
	paths := methodsOf(reflect.TypeFor[store.Tx]())
	if len(paths) < 200 {
		t.Fatalf("found only %d methods", len(paths))
	}
	for _, path := range paths {
		point := strings.Join(path[len(path)-2:], ".")
		for want, fault := range faults {
			inner := memory.New(memory.Config{})
			st := faulty.New(inner, faulty.Nth(point, 1, fault))

			got := st.InTx(t.Context(), func(tx store.Tx) error {
				if point != "Workers.Put" {
					if err := tx.Workers().Put(store.Worker{ID: "worker_1"}); err != nil {
						return err
					}
				}
				at := reflect.ValueOf(tx)
				for _, accessor := range path[:len(path)-1] {
					at = at.MethodByName(accessor).Call(nil)[0]
				}
				return call(at.MethodByName(path[len(path)-1]))
			})

			if !errors.Is(got, want) {
				t.Errorf("%v: got error %v, want %v", path, got, want)
			}
			if kept := hired(t, inner); len(kept) > 0 {
				t.Errorf("%v: got workers %v, want none", path, kept)
			}
		}
	}
}

// methodsOf returns the methods of an interface that can fail, each with the accessors that lead to
// it.
func methodsOf(of reflect.Type) (paths [][]string) {
	for m := range of.Methods() {
		isAccessor := m.Type.NumIn() == 0 && m.Type.NumOut() == 1 && m.Type.Out(0).Kind() == reflect.Interface
		switch {
		case m.Name == "Now":
		case isAccessor:
			for _, rest := range methodsOf(m.Type.Out(0)) {
				paths = append(paths, append([]string{m.Name}, rest...))
			}
		default:
			paths = append(paths, []string{m.Name})
		}
	}
	return paths
}

// call calls a method with zero arguments and returns its error.
func call(method reflect.Value) error {
	var args []reflect.Value
	for in := range method.Type().Ins() {
		args = append(args, reflect.Zero(in))
	}
	results := method.Call(args)
	err, _ := results[len(results)-1].Interface().(error)
	return err
}

// An fn that continues after the handle has died commits nothing.
func TestDeathInATransaction(t *testing.T) {
	t.Parallel()
	for _, act := range []faulty.Act{faulty.Die, faulty.DieAfter} {
		inner := memory.New(memory.Config{})
		st := faulty.New(inner, faulty.Nth("Workers.Put", 2, faulty.Fault{Act: act}))

		err := st.InTx(t.Context(), func(tx store.Tx) error {
			_ = tx.Workers().Put(store.Worker{ID: "worker_1"})
			_ = tx.Workers().Put(store.Worker{ID: "worker_2"})
			return nil
		})

		if !errors.Is(err, faulty.Dead) {
			t.Errorf("got error %v, want %v", err, faulty.Dead)
		}
		if got := hired(t, inner); len(got) > 0 {
			t.Errorf("got workers %v, want none", got)
		}
	}
}

// A panic leaves nothing of its transaction, or all of it, and the handle stays alive.
func TestPanic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method string
		act    faulty.Act
		kept   []perdure.WorkerID
	}{
		{"InTx", faulty.Panic, nil},
		{"InTx", faulty.PanicAfter, []perdure.WorkerID{"worker_1"}},
		{"Workers.Put", faulty.Panic, nil},
		{"Workers.Put", faulty.PanicAfter, nil},
	} {
		inner := memory.New(memory.Config{})
		st := faulty.New(inner, faulty.Nth(c.method, 1, faulty.Fault{Act: c.act}))

		var caught any
		func() {
			defer func() { caught = recover() }()
			_ = hire(st, "worker_1")
		}()

		if caught != faulty.Panicked || st.Dead() {
			t.Errorf("%s: got panic %v, dead %t", c.method, caught, st.Dead())
		}
		if got := hired(t, inner); !slices.Equal(got, c.kept) {
			t.Errorf("%s, act %d: got workers %v, want %v", c.method, c.act, got, c.kept)
		}
		if err := hire(st, "worker_2"); err != nil {
			t.Errorf("%s: after the panic: %v", c.method, err)
		}
	}
}

// The death of a handle ends its waiting calls and leaves the inner store open. Every later call
// returns Dead.
func TestDeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New(memory.Config{})
		st := faulty.New(inner, faulty.Nth("View", 1, faulty.Fault{Act: faulty.Die}))
		waits := make(chan error, 3)
		go func() { waits <- st.Watch(t.Context(), "session_1", 0, func(store.Frame) error { return nil }) }()
		go func() {
			waits <- st.InTx(t.Context(), func(store.Tx) error {
				<-time.After(time.Hour)
				return nil
			})
		}()
		synctest.Wait()
		go func() { waits <- hire(st, "worker_1") }()
		synctest.Wait()

		waits <- st.View(t.Context(), func(store.Reader) error { return nil })

		for range 4 {
			if err := <-waits; !errors.Is(err, faulty.Dead) || !errors.Is(err, perdure.Unavailable) {
				t.Errorf("got error %v, want %v", err, faulty.Dead)
			}
		}
		st.Publish(store.Frame{})
		if err := st.Close(); !errors.Is(err, faulty.Dead) {
			t.Errorf("close: got error %v, want %v", err, faulty.Dead)
		}
		if got := hired(t, inner); len(got) > 0 {
			t.Errorf("got workers %v, want none", got)
		}
	})
}

// A plan receives every call with its number, and a slow call delays no other one.
func TestPlanIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		points := make(chan faulty.Point, 10)
		slow := make(chan struct{})
		st := faulty.New(memory.New(memory.Config{}), faulty.Plan{At: func(p faulty.Point) faulty.Fault {
			points <- p
			if p == (faulty.Point{Method: "InTx", N: 2}) {
				<-slow
			}
			return faulty.Fault{}
		}})
		done := make(chan error, 1)

		if err := hire(st, "worker_1"); err != nil {
			t.Fatal(err)
		}
		go func() { done <- hire(st, "worker_2") }()
		synctest.Wait()
		if err := hire(st, "worker_3"); err != nil {
			t.Fatal(err)
		}
		close(slow)
		if err := <-done; err != nil {
			t.Fatal(err)
		}

		close(points)
		want := []faulty.Point{
			{Method: "InTx", N: 1}, {Method: "Workers.Put", N: 1}, {Method: "InTx", N: 2}, {Method: "InTx", N: 3},
			{Method: "Workers.Put", N: 2}, {Method: "Workers.Put", N: 3},
		}
		var got []faulty.Point
		for p := range points {
			got = append(got, p)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got points %v, want %v", got, want)
		}
	})
}
