package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/cli"
)

const (
	// probeTimeout is how long the holder of the data directory may take for its first response.
	// Giving up loses nothing, because the store has the same data.
	probeTimeout = 2 * time.Second
	// readTime is how long a read may take with a holder that has responded before.
	readTime = 10 * time.Second
	// pauseFactor is the length of the pause after a failed attempt, as a multiple of the time it
	// took. A missing holder refuses at once, and is soon tried again; a hanging one costs at most
	// a tenth of the time.
	pauseFactor = 9
)

// errSlowHolder is the cause of a read that took too long.
var errSlowHolder = fmt.Errorf("%w: the server of the data directory does not respond in time", perdure.Unavailable)

// reader is the engine of a command that reads. It uses the holder of the data directory while that
// responds, and reads the store otherwise. Each answer comes completely from one of the two. Both
// return committed data only, so that a caller that continues from a sequence number or an offset
// misses nothing and gets nothing twice, however often the holder comes and goes.
//
// It is safe for concurrent use. Methods that wait for news (Follow, Tasks.Wait, WaitIdle) work
// only with the holder, because a store does not notify other processes. Commands that follow
// therefore poll.
type reader struct {
	*remoteEngine
	fallbackOptions cli.OpenOptions // for the store
	log             *slog.Logger

	mu        sync.Mutex
	probed    bool         // guarded by mu; the holder has responded, and not failed since
	lastError error        // guarded by mu; last error of the holder; nil: none
	retryAt   time.Time    // guarded by mu; the holder is not tried again before this time
	store     *localEngine // guarded by mu; nil: it was not needed yet
}

var _ cli.Engine = (*reader)(nil)

// newReader checks whether a process holds the data directory, and otherwise opens the store. The
// error is that of the store. A holder with another database than the given one is not used: the
// given database is read.
func newReader(ctx context.Context, o cli.OpenOptions) (*reader, error) {
	eng, err := remote.New(remote.Config{URL: "unix://" + filepath.Join(o.Dir, socketFile), Retry: -1,
		Outage: socketOutage})
	if err != nil {
		return nil, fmt.Errorf("connect to the server of the data directory: %w", err)
	}
	r := &reader{remoteEngine: newRemoteEngine(eng), fallbackOptions: o, log: o.Log}
	r.fallbackOptions.Access = cli.Reading
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.holderResponds(ctx) {
		return r, nil
	}
	if _, err := r.openStore(ctx); err != nil {
		return nil, errors.Join(err, r.remoteEngine.Close())
	}
	return r, nil
}

// ask reads from the holder, or else from the store. read may run twice.
func ask[T any](ctx context.Context, r *reader,
	read func(context.Context, engine.Engine) (T, error)) (none T, err error) {
	if r.holderResponds(ctx) {
		began := time.Now()
		short, cancel := context.WithTimeoutCause(ctx, readTime, errSlowHolder)
		got, err := read(short, r.remoteEngine)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, perdure.Unavailable) {
			return got, err
		}
		r.useStore(began, err)
	}
	st, err := r.openStore(ctx)
	if err != nil {
		return none, err
	}
	return read(ctx, st)
}

// readerNoun is a noun of a reader.
type readerNoun[N any] struct {
	reader *reader
	of     func(engine.Engine) N
}

func nounOf[N any](r *reader, of func(engine.Engine) N) readerNoun[N] { return readerNoun[N]{r, of} }

// ask0 is ask for a method of a noun without arguments.
func ask0[N, T any](ctx context.Context, r readerNoun[N], read func(N, context.Context) (T, error)) (T, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (T, error) { return read(r.of(eng), ctx) })
}

// ask1 is ask for a method of a noun with one argument.
func ask1[N, A, T any](ctx context.Context, r readerNoun[N], read func(N, context.Context, A) (T, error), a A) (T, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (T, error) { return read(r.of(eng), ctx, a) })
}

// ask2 is ask for a method of a noun with two arguments.
func ask2[N, A, B, T any](ctx context.Context, r readerNoun[N], read func(N, context.Context, A, B) (T, error), a A, b B) (T, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (T, error) { return read(r.of(eng), ctx, a, b) })
}

// holderResponds reports whether to use the holder. A holder that has not responded yet, or has
// failed, must first respond to a request.
func (r *reader) holderResponds(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.probed || time.Now().Before(r.retryAt) {
		return r.probed
	}
	began := time.Now()
	short, cancel := context.WithTimeoutCause(ctx, probeTimeout, errSlowHolder)
	defer cancel()
	if _, err := r.remoteEngine.Sessions().List(short, 1); err != nil {
		r.rest(began)
		return false
	}
	if r.fallbackOptions.Database != "" { // its database must be the given one
		if err := checkStores(short, r.fallbackOptions, r.remoteEngine.Engine); err != nil {
			r.lastError = err
			r.rest(began)
			return false
		}
	}
	r.probed = true
	r.log.Debug("using the server of the data directory", "previous error", r.lastError)
	return true
}

// useStore records that a read which began at began got no response.
func (r *reader) useStore(began time.Time, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed, r.lastError = false, why
	r.rest(began)
	r.log.Debug("server of the data directory not responding, reading the store", "error", why)
}

// rest is called with mu held.
func (r *reader) rest(began time.Time) {
	now := time.Now()
	r.retryAt = now.Add(pauseFactor * now.Sub(began))
}

// openStore opens the store, once. While that fails, the error of the lost holder is returned as
// well: a new process may be starting, for instance with a newer version, and commands that follow
// retry.
func (r *reader) openStore(ctx context.Context) (*localEngine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store != nil {
		return r.store, nil
	}
	st, err := Program{}.openHere(ctx, r.fallbackOptions)
	if err != nil {
		return nil, errors.Join(r.lastError, err)
	}
	r.store = st
	return st, nil
}

// readerSessions implements engine.Sessions for reader.
type readerSessions struct {
	engine.Sessions
	readerNoun[engine.Sessions]
}

func (r *reader) Sessions() engine.Sessions {
	return readerSessions{r.remoteEngine.Sessions(), nounOf(r, engine.Engine.Sessions)}
}

func (r readerSessions) Get(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	return ask1(ctx, r.readerNoun, engine.Sessions.Get, id)
}

func (r readerSessions) List(ctx context.Context, limit int) ([]engine.Session, error) {
	return ask1(ctx, r.readerNoun, engine.Sessions.List, limit)
}

func (r readerSessions) ListWhere(ctx context.Context, f engine.SessionFilter) ([]engine.Session, error) {
	return ask1(ctx, r.readerNoun, engine.Sessions.ListWhere, f)
}

// Export implements engine.Sessions. It buffers the export, because the holder may go away in the
// middle.
func (r readerSessions) Export(ctx context.Context, id perdure.SessionID, w io.Writer) error {
	text, err := ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]byte, error) {
		var out bytes.Buffer
		err := eng.Sessions().Export(ctx, id, &out)
		return out.Bytes(), err
	})
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

func (r *reader) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Event, error) {
		return eng.Events(ctx, id, after, limit)
	})
}

// readerCalls implements engine.Calls for reader.
type readerCalls struct {
	engine.Calls
	readerNoun[engine.Calls]
}

func (r *reader) Calls() engine.Calls {
	return readerCalls{r.remoteEngine.Calls(), nounOf(r, engine.Engine.Calls)}
}

func (r readerCalls) List(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error) {
	return ask1(ctx, r.readerNoun, engine.Calls.List, id)
}

// readerTasks implements engine.Tasks for reader.
type readerTasks struct {
	engine.Tasks
	readerNoun[engine.Tasks]
}

func (r *reader) Tasks() engine.Tasks {
	return readerTasks{r.remoteEngine.Tasks(), nounOf(r, engine.Engine.Tasks)}
}

func (r readerTasks) Get(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	return ask1(ctx, r.readerNoun, engine.Tasks.Get, id)
}

func (r readerTasks) List(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	return ask1(ctx, r.readerNoun, engine.Tasks.List, id)
}

func (r readerTasks) ListWhere(ctx context.Context, q engine.TaskQuery) ([]perdure.Task, error) {
	return ask1(ctx, r.readerNoun, engine.Tasks.ListWhere, q)
}

func (r readerTasks) Log(ctx context.Context, id perdure.TaskID, offset int64, max int) (engine.Log, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.Log, error) {
		return eng.Tasks().Log(ctx, id, offset, max)
	})
}

func (r readerTasks) Processes(ctx context.Context, id perdure.TaskID) (perdure.TaskProcesses, error) {
	return ask1(ctx, r.readerNoun, engine.Tasks.Processes, id)
}

// readerApprovals implements engine.Approvals for reader.
type readerApprovals struct {
	engine.Approvals
	readerNoun[engine.Approvals]
}

func (r *reader) Approvals() engine.Approvals {
	return readerApprovals{r.remoteEngine.Approvals(), nounOf(r, engine.Engine.Approvals)}
}

func (r readerApprovals) List(ctx context.Context, filter engine.ApprovalFilter) ([]perdure.Approval, error) {
	return ask1(ctx, r.readerNoun, engine.Approvals.List, filter)
}

func (r readerApprovals) Get(ctx context.Context, id perdure.ApprovalID) (perdure.Approval, error) {
	return ask1(ctx, r.readerNoun, engine.Approvals.Get, id)
}

func (r readerTasks) Messages(ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID,
	limit int) ([]perdure.TaskMessage, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]perdure.TaskMessage, error) {
		return eng.Tasks().Messages(ctx, id, after, limit)
	})
}

// readerSchedules implements engine.Schedules for reader.
type readerSchedules struct {
	engine.Schedules
	readerNoun[engine.Schedules]
}

func (r *reader) Schedules() engine.Schedules {
	return readerSchedules{r.remoteEngine.Schedules(), nounOf(r, engine.Engine.Schedules)}
}

func (r readerSchedules) Get(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error) {
	return ask1(ctx, r.readerNoun, engine.Schedules.Get, id)
}

func (r readerSchedules) List(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error) {
	return ask1(ctx, r.readerNoun, engine.Schedules.List, id)
}

func (r readerSchedules) NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]engine.NextFire, error) {
	return ask2(ctx, r.readerNoun, engine.Schedules.NextFires, id, n)
}

func (r readerSchedules) Preview(ctx context.Context, s perdure.Schedule, n int) ([]engine.NextFire, error) {
	return ask2(ctx, r.readerNoun, engine.Schedules.Preview, s, n)
}

func (r readerSchedules) Fires(ctx context.Context, id perdure.ScheduleID, limit int) ([]perdure.Fire, error) {
	return ask2(ctx, r.readerNoun, engine.Schedules.Fires, id, limit)
}

// Backfill implements engine.Schedules, as far as it reads: a dry run.
func (r readerSchedules) Backfill(ctx context.Context, id perdure.ScheduleID, of engine.TimeRange) ([]perdure.Fire, error) {
	of.DryRun = true
	return ask2(ctx, r.readerNoun, engine.Schedules.Backfill, id, of)
}

func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.remoteEngine.Close()
	if r.store != nil {
		err = errors.Join(err, r.store.Close())
	}
	return err
}
