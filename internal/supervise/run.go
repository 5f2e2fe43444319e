package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// localRun is a run of Local. It keeps no files open.
type localRun struct {
	local *Local
	dir   string
	rec   Record
}

var _ Run = (*localRun)(nil)

func (r *localRun) Follow(ctx context.Context, from int64, emit func(Chunk) error) (Exit, error) {
	if from < 0 {
		return Exit{}, fmt.Errorf("follow %s: negative offset %d", r.dir, from)
	}
	frames, err := openFrames(r.dir)
	if err != nil {
		return Exit{}, fmt.Errorf("follow %s: %w", r.dir, err)
	}
	defer frames.Close()
	f := follower{run: r, frames: frames, from: from, emit: emit}
	e, err := f.follow(ctx)
	if err != nil {
		return Exit{}, fmt.Errorf("follow %s: %w", r.dir, err)
	}
	r.linger(ctx)
	return e, nil
}

func (r *localRun) Stop(ctx context.Context, grace time.Duration) error {
	_, ended, err := r.end()
	if err == nil && !ended {
		if err = r.requestStop(grace); err == nil {
			err = r.awaitEnd(ctx)
		}
	}
	if errors.Is(err, Vanished) {
		err = errors.Join(err, r.local.kill(ctx, r.dir))
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", r.dir, err)
	}
	r.linger(ctx)
	return nil
}

func (r *localRun) Record() Record { return r.rec }

// requestStop writes the request, unless an earlier one ends sooner, and wakes the supervisor. A
// lost signal does no harm, since the supervisor also polls the file.
func (r *localRun) requestStop(grace time.Duration) error {
	if err := r.writeStop(stopFile{GraceMS: toMS(grace), RequestedAt: time.Now().UTC()}); err != nil {
		return err
	}
	return signalProcess(r.rec.PID, r.rec.StartTime, syscall.SIGTERM)
}

// writeStop writes the request, unless an earlier one ends sooner. It holds the lock of the run: of
// two requests at the same time, the later end must not replace the sooner one.
func (r *localRun) writeStop(req stopFile) error {
	unlock, err := lockDir(r.dir)
	if err != nil {
		return err
	}
	defer unlock()
	var old stopFile
	err = readJSON(filepath.Join(r.dir, stopName), &old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, Corrupt) {
		return err
	}
	if err == nil && !req.due().Before(old.due()) {
		return nil
	}
	return replaceJSON(r.dir, stopName, req)
}

// awaitEnd waits for the exit record.
func (r *localRun) awaitEnd(ctx context.Context) error {
	var p pace
	for {
		_, ended, err := r.end()
		if ended || err != nil {
			return err
		}
		if err := p.next(ctx); err != nil {
			return err
		}
	}
}

// end returns the exit record, false while the supervisor is alive and has not written one, or
// Vanished.
func (r *localRun) end() (Exit, bool, error) {
	e, ended, err := readExit(r.dir)
	if ended || err != nil || r.local.alive(r.rec) {
		return e, ended, err
	}
	// The supervisor may have written the record and exited between the two checks.
	if e, ended, err = readExit(r.dir); !ended && err == nil {
		err = Vanished
	}
	return e, ended, err
}

// linger waits until the supervisor, which has nothing more to do, has exited.
func (r *localRun) linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lingerWait)
	defer cancel()
	for r.local.alive(r.rec) {
		if pause(ctx, time.Millisecond) != nil {
			break
		}
	}
	r.local.reap()
}
