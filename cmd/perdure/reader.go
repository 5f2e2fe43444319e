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
	// greetTime is how long whoever holds the data directory may take for its first answer. Nothing is lost by
	// giving it up: the store is there, and has the same to tell.
	greetTime = 2 * time.Second
	// readTime is how long one read may take of a holder that has answered before.
	readTime = 10 * time.Second
	// restFactor is for how many times as long as it kept us waiting a holder is left alone then. One that is not
	// there refuses at once, and so is asked again at once; one that hangs costs a tenth of the time at most.
	restFactor = 9
)

// errLate is why a read of the holder was given up.
var errLate = fmt.Errorf("%w: whoever holds the data directory does not answer in time", perdure.Unavailable)

// reader is the engine of a command that reads: it asks whoever holds the data directory, and where nobody answers
// it reads the store, until somebody does again. Each answer comes whole from one of the two. Both tell what is
// committed and nothing else, so whoever goes on from a seq or an offset misses nothing and gets nothing twice,
// however often the holder comes and goes.
//
// It is safe for concurrent use. What waits for news (Follow, WaitTask, WaitIdle) is the holder's alone: a store
// tells a process beside it nothing, so commands that follow read again and again.
type reader struct {
	*far
	beside cli.Opening // of the store
	log    *slog.Logger

	mu    sync.Mutex
	met   bool      // guarded by mu; the holder has answered, and not failed since
	lost  error     // guarded by mu; why the holder was given up last; nil: it never was
	later time.Time // guarded by mu; until then a holder that was given up is left alone
	store *opened   // guarded by mu; nil: nobody needed it yet
}

var _ cli.Engine = (*reader)(nil)

// newReader asks whether somebody holds the data directory, and opens the store if not. The error is that of the
// store. Whoever holds the directory and has another database than the one that is named is never asked: that one is read.
func newReader(ctx context.Context, o cli.Opening) (*reader, error) {
	eng, err := remote.New(remote.Config{URL: "unix://" + filepath.Join(o.Dir, socketFile), Retry: -1, Outage: socketOutage})
	if err != nil {
		return nil, fmt.Errorf("reach whoever holds the data directory: %w", err)
	}
	r := &reader{far: newFar(eng), beside: o, log: o.Log}
	r.beside.Access = cli.Reading
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.holderThere(ctx) {
		return r, nil
	}
	if _, err := r.openStore(ctx); err != nil {
		return nil, errors.Join(err, r.far.Close())
	}
	return r, nil
}

// ask reads from the holder, else from the store. read may run twice.
func ask[T any](ctx context.Context, r *reader, read func(context.Context, engine.Engine) (T, error)) (none T, err error) {
	if r.holderThere(ctx) {
		began := time.Now()
		short, cancel := context.WithTimeoutCause(ctx, readTime, errLate)
		got, err := read(short, r.far)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, perdure.Unavailable) {
			return got, err
		}
		r.giveUp(began, err)
	}
	st, err := r.openStore(ctx)
	if err != nil {
		return none, err
	}
	return read(ctx, st)
}

// holderThere reports whether the holder is to be asked. One that was not met yet, or was given up, has to say a
// word first.
func (r *reader) holderThere(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.met || time.Now().Before(r.later) {
		return r.met
	}
	began := time.Now()
	short, cancel := context.WithTimeoutCause(ctx, greetTime, errLate)
	defer cancel()
	if _, err := r.far.Sessions(short, 1); err != nil {
		r.rest(began)
		return false
	}
	if r.beside.Database != "" { // it is to have the one that is named
		if err := checkPlace(short, r.beside, r.far.Engine); err != nil {
			r.lost = err
			r.rest(began)
			return false
		}
	}
	r.met = true
	r.log.Debug("whoever holds the data directory is asked", "lost before", r.lost)
	return true
}

// giveUp notes that a read which began then had no answer.
func (r *reader) giveUp(began time.Time, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met, r.lost = false, why
	r.rest(began)
	r.log.Debug("the store is read: whoever held the data directory does not answer", "error", why)
}

// rest is called with mu held.
func (r *reader) rest(began time.Time) {
	now := time.Now()
	r.later = now.Add(restFactor * now.Sub(began))
}

// openStore opens the store, once. While it cannot be opened the error of a lost holder counts, too: somebody may be
// about to begin there, with a newer version say, and who follows tries again.
func (r *reader) openStore(ctx context.Context) (*opened, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store != nil {
		return r.store, nil
	}
	st, err := openHere(ctx, r.beside)
	if err != nil {
		return nil, errors.Join(r.lost, err)
	}
	r.store = st
	return st, nil
}

// Session implements engine.Sessions.
func (r *reader) Session(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.Session, error) { return eng.Session(ctx, id) })
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

// Export implements engine.Archives. What is asked for is kept until all of it is there: who holds the data directory may
// go away in the middle.
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
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Call, error) { return eng.Calls(ctx, id) })
}

// Task implements engine.Tasks.
func (r *reader) Task(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (perdure.Task, error) { return eng.Task(ctx, id) })
}

// Tasks implements engine.Tasks.
func (r *reader) Tasks(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Task, error) { return eng.Tasks(ctx, id) })
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
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (perdure.Approval, error) { return eng.Approval(ctx, id) })
}

// TaskMessages implements engine.Deliveries.
func (r *reader) TaskMessages(ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.TaskMessage, error) {
		return eng.TaskMessages(ctx, id, after, limit)
	})
}

// Schedule implements engine.Schedules.
func (r *reader) Schedule(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (perdure.Schedule, error) { return eng.Schedule(ctx, id) })
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

// Backfill implements engine.ScheduleActs, as far as it reads: a dry run.
func (r *reader) Backfill(ctx context.Context, id perdure.ScheduleID, of engine.Stretch) ([]perdure.Fire, error) {
	of.DryRun = true
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]perdure.Fire, error) { return eng.Backfill(ctx, id, of) })
}

// Close implements cli.Engine.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.far.Close()
	if r.store != nil {
		err = errors.Join(err, r.store.Close())
	}
	return err
}
