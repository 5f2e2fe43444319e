package local_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
)

// plannedRunner injects faults into the steps of the ticket protocol by the plan of a store:
// Prepare, Start and Find of a command are points of their own.
type plannedRunner struct {
	supervise.Runner
	plan  faulty.Plan
	store *faulty.Store // dies with the runtime

	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

// point lets the plan decide how a step fails, and runs the step or not.
func (r *plannedRunner) point(step string, do func() error) error {
	r.mu.Lock()
	r.counts[step]++
	at := faulty.Point{Method: step, N: r.counts[step]}
	r.mu.Unlock()
	act := faulty.Pass
	if r.plan.At != nil {
		act = r.plan.At(at).Act
	}
	switch act {
	case faulty.Fail:
		return perdure.Unavailable
	case faulty.Die:
		r.store.Kill()
		return perdure.Unavailable
	case faulty.Panic:
		panic(faulty.Panicked)
	}
	err := do()
	switch act {
	case faulty.DoAndTimeout:
		return faulty.Timeout
	case faulty.DieAfter:
		r.store.Kill()
		return faulty.Dead
	case faulty.DieAfterReply:
		r.store.Kill()
	case faulty.PanicAfter:
		panic(faulty.Panicked)
	}
	return err
}

// Prepare implements supervise.Runner.
func (r *plannedRunner) Prepare(ctx context.Context, dir string) error {
	return r.point("PrepareCommand", func() error { return r.Runner.Prepare(ctx, dir) })
}

// Start implements supervise.Runner.
func (r *plannedRunner) Start(ctx context.Context, dir string, c supervise.Command) (run supervise.Run, err error) {
	err = r.point("StartCommand", func() (err error) {
		run, err = r.Runner.Start(ctx, dir, c)
		return err
	})
	return run, err
}

// Find implements supervise.Runner.
func (r *plannedRunner) Find(ctx context.Context, dir string) (remains supervise.Remains, run supervise.Run, err error) {
	err = r.point("FindCommand", func() (err error) {
		remains, run, err = r.Runner.Find(ctx, dir)
		return err
	})
	return remains, run, err
}

// fuse is a store whose panics end what they would end in a process: everything, unless a caller
// recovers. The goroutine ends with its deferred functions, as in a panic, and the run learns that
// the process is gone.
type fuse struct {
	*faulty.Store
	gone     chan struct{} // closed when the process would have ended
	caught   chan struct{} // closed when a panic reaches a caller that recovers from it
	once     sync.Once
	first    sync.Once
	panicked atomic.Bool
}

func (f *fuse) blow() { f.once.Do(func() { close(f.gone) }) }

func (f *fuse) blown() bool {
	select {
	case <-f.gone:
		return true
	default:
		return false
	}
}

// InTx is InTx of store.Store.
func (f *fuse) InTx(ctx context.Context, fn func(store.Tx) error) error {
	defer f.catch()
	return f.Store.InTx(ctx, fn)
}

// View is View of store.Store.
func (f *fuse) View(ctx context.Context, fn func(store.Reader) error) error {
	defer f.catch()
	return f.Store.View(ctx, fn)
}

// Watch is Watch of store.Store.
func (f *fuse) Watch(ctx context.Context, id perdure.SessionID, after int64, fn func(store.Frame) error) error {
	defer f.catch()
	return f.Store.Watch(ctx, id, after, fn)
}

// Publish is Publish of store.Store.
func (f *fuse) Publish(frame store.Frame) {
	defer f.catch()
	f.Store.Publish(frame)
}

// catch is deferred.
func (f *fuse) catch() {
	p := recover()
	if p == nil {
		return
	}
	if p != faulty.Panicked {
		panic(p)
	}
	if recovered() {
		f.first.Do(func() { close(f.caught) })
		panic(p)
	}
	f.panicked.Store(true)
	f.blow()
	runtime.Goexit()
}

// recovered reports whether a caller on the stack recovers from a panic: the product does around a
// tool and its hooks.
func recovered() bool {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		frame, more := frames.Next()
		for _, door := range []string{"dispatch.protect", ".Protect", ".Guarded", ".callHost", ".callDetach", ".killOnce"} {
			if strings.HasSuffix(frame.Function, door) {
				return true
			}
		}
		if !more {
			return false
		}
	}
}
