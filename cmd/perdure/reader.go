package main

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
// It is safe for concurrent use. Methods that wait for news (Follow, WaitTask, WaitIdle) work only
// with the holder, because a store does not notify other processes. Commands that follow therefore
// poll.
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
	if _, err := r.remoteEngine.Sessions(short, 1); err != nil {
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
	st, err := openHere(ctx, r.fallbackOptions)
	if err != nil {
		return nil, errors.Join(r.lastError, err)
	}
	r.store = st
	return st, nil
}

// Session implements engine.Sessions.
func (r *reader) Session(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.Session,
		error) {
		return eng.Session(ctx, id)
	})
}

// Sessions implements engine.Sessions.
func (r *reader) Sessions(ctx context.Context, limit int) ([]engine.Session, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.Session, error) {
		return eng.Sessions(ctx, limit)
	})
}

// SessionsWhere implements engine.Sessions.
func (r *reader) SessionsWhere(ctx context.Context, f engine.SessionFilter) ([]engine.Session, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.Session, error) {
		return eng.SessionsWhere(ctx, f)
	})
}

// Export implements engine.Archives. It buffers the export, because the holder may go away in the
// middle.
func (r *reader) Export(ctx context.Context, id perdure.SessionID, w io.Writer) error {
	text, err := ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]byte, error) {
		var out bytes.Buffer
		err := eng.Export(ctx, id, &out)
		return out.Bytes(), err
	})
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Events implements engine.Journals.
func (r *reader) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Event, error) {
		return eng.Events(ctx, id, after, limit)
	})
}

// Calls implements engine.Calls.
func (r *reader) Calls(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Call,
		error) {
		return eng.Calls(ctx, id)
	})
}

// Task implements engine.Tasks.
func (r *reader) Task(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (perdure.Task, error) { return eng.Task(ctx, id) })
}

// Tasks implements engine.Tasks.
func (r *reader) Tasks(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Task,
		error) {
		return eng.Tasks(ctx, id)
	})
}

// TaskLog implements engine.Tasks.
func (r *reader) TaskLog(ctx context.Context, id perdure.TaskID, offset int64, max int) (engine.Log, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.Log, error) {
		return eng.TaskLog(ctx, id, offset, max)
	})
}

// Approvals implements engine.Approvals.
func (r *reader) Approvals(ctx context.Context, filter engine.ApprovalFilter) ([]perdure.Approval, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Approval, error) {
		return eng.Approvals(ctx, filter)
	})
}

// Approval implements engine.Approvals.
func (r *reader) Approval(ctx context.Context, id perdure.ApprovalID) (perdure.Approval, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (perdure.Approval,
		error) {
		return eng.Approval(ctx, id)
	})
}

// TaskMessages implements engine.Deliveries.
func (r *reader) TaskMessages(ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID,
	limit int) ([]perdure.TaskMessage, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.TaskMessage, error) {
		return eng.TaskMessages(ctx, id, after, limit)
	})
}

// Schedule implements engine.Schedules.
func (r *reader) Schedule(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (perdure.Schedule,
		error) {
		return eng.Schedule(ctx, id)
	})
}

// Schedules implements engine.Schedules.
func (r *reader) Schedules(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Schedule, error) {
		return eng.Schedules(ctx, id)
	})
}

// NextFires implements engine.Schedules.
func (r *reader) NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]engine.NextFire, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.NextFire, error) {
		return eng.NextFires(ctx, id, n)
	})
}

// ScheduleFires implements engine.Schedules.
func (r *reader) ScheduleFires(ctx context.Context, id perdure.ScheduleID, limit int) ([]perdure.Fire, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Fire, error) {
		return eng.ScheduleFires(ctx, id, limit)
	})
}

// Backfill implements engine.ScheduleControl, as far as it reads: a dry run.
func (r *reader) Backfill(ctx context.Context, id perdure.ScheduleID, of engine.TimeRange) ([]perdure.Fire, error) {
	of.DryRun = true
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Fire,
		error) {
		return eng.Backfill(ctx, id, of)
	})
}

// Close implements cli.Engine.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.remoteEngine.Close()
	if r.store != nil {
		err = errors.Join(err, r.store.Close())
	}
	return err
}
