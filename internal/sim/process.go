package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
)

// process is one engine, which may die.
type process struct {
	w       *world
	n       int
	host    int // its index in world.running
	eng     engine.Engine
	run     func(context.Context) error
	granted *local.Granted // the same engine; nil: it schedules its own work
	stop    context.CancelFunc
	// work is the context of what the scheduler requests from it, which ends with the process.
	work    context.Context
	endWork context.CancelFunc
	over    atomic.Bool
	jobs    atomic.Int64
	doomed  atomic.Bool // it dies when the consequences of its last commit have stopped
	ended   chan struct{}
	err     error     // of Run; read after ended
	leaving bool      // it was stopped; this and the following fields are only touched by the player
	frozen  time.Time // nothing of it passes the gate before
	next    time.Time // when another process starts in its place; zero: that is not decided
}

func (l *process) isDead() bool { return l.over.Load() }

// kill ends an engine like SIGKILL: from now on nothing of it has an effect. Its items at the gate
// are turned away.
func (l *process) kill() {
	if l.over.Swap(true) {
		return
	}
	l.w.gate.dropProcess(l)
	l.stop()
	l.endWork()
}

// hasEnded reports whether Run has returned.
func (l *process) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// isGone reports whether a process is dead or has ended.
func (l *process) isGone() bool { return l.isDead() || l.hasEnded() }

// isFrozen reports whether a process is stopped as by SIGSTOP.
func (l *process) isFrozen() bool { return l.frozen.After(time.Now()) }

// prefix names the host of a process in labels, where there may be several.
func (l *process) prefix() string {
	if l.granted == nil {
		return ""
	}
	return fmt.Sprintf("host %d: ", l.host)
}

// The timings of an engine of a program.
const (
	grace = 30 * time.Millisecond
	beat  = 900 * time.Millisecond
	// the interval of the heartbeats of several hosts, whose leases must expire soon
	hostBeat = 400 * time.Millisecond
)

// slotsPerSession is the number of slots for background runs per session.
const slotsPerSession = 2

// start opens and runs the next engine of a host, over its own handle.
func (w *world) start(host int) error {
	l := &process{w: w, n: len(w.processes) + 1, host: host, ended: make(chan struct{})}
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), processKey{}, l))
	l.stop = stop
	l.work, l.endWork = context.WithCancel(context.WithValue(context.Background(), processKey{}, l))
	if err := l.open(ctx); err != nil {
		stop()
		l.endWork()
		return fmt.Errorf("open engine %d: %w", l.n, err)
	}
	w.running[host], w.processes = l, append(w.processes, l)
	w.note("%sengine %d", l.prefix(), l.n)
	go func() {
		defer w.gate.ring()
		l.err = l.run(ctx)
		l.endWork()
		close(l.ended)
	}()
	return nil
}

// open opens the engine of a process.
func (l *process) open(ctx context.Context) error {
	if l.w.scheduler != nil {
		eng, err := local.OpenGranted(ctx, l.config(newHandle(l.w, l), hostBeat), outsideScheduler{l.w.scheduler, l})
		if err == nil {
			l.eng, l.run, l.granted = eng, eng.Run, eng
		}
		return err
	}
	eng, err := local.Open(ctx, l.config(newHandle(l.w, l), beat))
	if err == nil {
		l.eng, l.run = eng, eng.Run
	}
	return err
}

// config returns the configuration of an engine.
func (l *process) config(st store.Store, beat time.Duration) local.Config {
	w, s := l.w, l.w.program.Settings
	return local.Config{
		Store: st, Model: &scriptedModel{w: w, l: l}, Tools: w.tools,
		Policies: local.Policies{Route: route},
		Limits:   local.Limits{SlotsPerSession: slotsPerSession, SlotsPerProcess: slotsPerSession * w.program.Sessions, DetachedPerSession: slotsPerSession, Overflow: local.Overflow(s.Overflow), EvictCap: 4, MaxExecutions: -1, NoProgress: -1, DeferAbove: -1, SubagentsLive: s.Agents},
		Timing:   local.Timing{ApprovalExpiry: s.Expiry, Grace: grace, Drain: s.Drain},
		Workers:  local.Workers{Beat: beat, Lease: 4 * beat},
	}
}

// live returns the processes that a client or the scheduler may reach. A frozen one does not
// answer.
func (w *world) live() (all []*process) {
	for _, l := range w.running {
		if l != nil && !l.isGone() {
			all = append(all, l)
		}
	}
	return all
}

// chosen returns one of the live processes; nil: there is none.
func (w *world) chosen(about ...any) *process {
	all := w.live()
	if len(all) == 0 {
		return nil
	}
	return all[w.hash(append(about, "host")...)%uint64(len(all))]
}
