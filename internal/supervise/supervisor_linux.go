package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/perdure/perdure/internal/sandbox"
)

// How often a supervisor polls for a stop file and for processes that are not its children, in case
// no signal wakes it.
const (
	idlePoll = 200 * time.Millisecond
	busyPoll = 20 * time.Millisecond
)

// supervisor is the process that a command runs under. One goroutine owns it; only the output file
// is shared with the pumps.
type supervisor struct {
	dir        string
	host       string
	command    Command
	sandbox    *sandbox.Order // nil: the command is not confined
	rec        Record
	startError error // why the command cannot be started although we have the ticket

	// Signals, with capacity 1 each: a signal only means that there is something to check.
	stopSignals chan os.Signal // SIGTERM, SIGINT
	wake        chan os.Signal // SIGCHLD and the like

	out     *outputFile
	pipes   [2]*pipe
	drained chan struct{} // closed when both streams have ended

	started     time.Time
	ended       bool // the command's first process was reaped
	childless   bool // the kernel says that we have no children, and thus no descendants
	status      syscall.WaitStatus
	initReports <-chan syscall.WaitStatus // the command's end, reported by its init; nil: the kernel reports it
	initPID     int                       // of the init above the command; zero: there is none
	watch       *watch                    // nil: there are no limits
	limit       string                    // which limit was exceeded
	// When the wait for the end of the streams is over; zero before it starts.
	drainBy time.Time

	stopSignalled bool      // a signal requested the end
	stopSeen      bool      // a stop was requested
	stop          stopFile  // the last request seen
	killAt        time.Time // when the tree is killed; zero: it was not asked to end
	cancelled     bool
	timedOut      bool
	left          []LeftProcess // the first of those that the command left behind
	leftCount     int
}

func (s *supervisor) path(name string) string { return filepath.Join(s.dir, name) }

// openStreams opens the output file and the two pipes.
func (s *supervisor) openStreams() error {
	var err error
	if s.out, err = openOutput(s.dir, s.command.OutputMaxBytes); err != nil {
		return fmt.Errorf("open output: %w", err)
	}
	for i, stream := range []Stream{Stdout, Stderr} {
		if s.pipes[i], err = newPipe(stream, s.out); err != nil {
			return err
		}
	}
	return nil
}

// supervise runs the command to its end, and returns when no process of its tree is left.
func (s *supervisor) supervise() Exit {
	// Pdeathsig is bound to the thread that forks, which must therefore live as long as we do.
	runtime.LockOSThread()
	s.started = time.Now()
	e := Exit{Version: version, StartedAt: now(), TreeGone: true}
	if code, err := s.start(); err != nil {
		e.Code, e.Error, e.EndedAt = code, err.Error(), now()
		s.out.close(&e)
		return e
	}
	// Before any output, so that a process that has read output can prove what remains of the
	// command if we die.
	s.recordCommand()
	pumps := s.startPumps()
	debug.FreeOSMemory() // the start of the host program has left garbage, and we may run for days

	s.await()
	s.killTree()
	for _, p := range s.pipes {
		_ = p.stopReading() // fails only if the pump has finished
	}
	pumps.Wait()
	s.removeScratch()

	e.EndedAt, e.TimedOut, e.Cancelled = now(), s.timedOut, s.cancelled
	e.Limit, e.Left, e.LeftCount = s.limit, s.left, s.leftCount
	if s.sandbox != nil {
		e.Profile, e.HasView = s.rec.Profile, s.initPID != 0 || s.sandbox.View != sandbox.NoView
	}
	e.usage()
	e.Code = s.status.ExitStatus()
	if s.status.Signaled() {
		e.Signal = int(s.status.Signal())
		e.Code = 128 + e.Signal
	}
	s.out.close(&e)
	return e
}

// startPumps starts to read both streams.
func (s *supervisor) startPumps() *sync.WaitGroup {
	var pumps sync.WaitGroup
	for _, p := range s.pipes {
		p.closeCommandEnd()
		pumps.Go(p.pump)
	}
	s.drained = make(chan struct{})
	go func() { // ends with the pumps, which supervise waits for
		pumps.Wait()
		close(s.drained)
	}()
	return &pumps
}

// recordCommand adds the command to the record. Only a process that finds us dead needs it.
func (s *supervisor) recordCommand() {
	p, ok := readProcess(s.rec.CommandPID)
	if !ok {
		return
	}
	s.rec.CommandStartTime = p.start
	if err := replaceJSON(s.dir, recordName, s.rec); err != nil {
		fmt.Fprintln(os.Stderr, "supervise: tell the command's pid:", err)
	}
}

// await returns when the command is done and nothing of it is left, or the tree must be killed.
func (s *supervisor) await() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	drained := s.drained
	for !s.runOnce(time.Now(), drained == nil) {
		timer.Reset(s.nextLook(time.Now()))
		select {
		case <-s.stopSignals:
			s.stopSignalled = true
		case <-s.wake:
		case <-drained:
			drained = nil
		case ws, ok := <-s.initReports:
			s.recordEnd(ws, ok)
		case <-timer.C:
		}
	}
}

// runOnce checks everything once, and reports whether the wait is over: no process of the tree is
// left, or it must be killed.
func (s *supervisor) runOnce(at time.Time, drained bool) bool {
	s.reap()
	s.readStop(at)
	if s.exceedsLimit(at) {
		return true
	}
	switch {
	case !s.ended:
		if s.isTimeUp(at) {
			s.timedOut = true
			s.beginEnd(at, s.command.Grace)
		}
	case s.drainBy.IsZero():
		s.drainBy = at.Add(s.command.Drain)
	}
	isOver := s.ended && !at.Before(s.drainBy) // the command has ended, and its drain time is over
	switch {
	case s.ended && s.childless:
		return drained || isOver
	case isOver && !s.ending():
		s.noteLeft()
		s.beginEnd(at, s.command.Grace)
	}
	return s.ending() && !at.Before(s.killAt)
}

// isTimeUp reports whether the command reaches its timeout now.
func (s *supervisor) isTimeUp(at time.Time) bool {
	return s.command.Timeout > 0 && !s.timedOut && at.Sub(s.started) >= s.command.Timeout
}

// nextLook returns how long nothing can become due.
func (s *supervisor) nextLook(at time.Time) time.Duration {
	d := idlePoll
	if s.watch != nil {
		d = max(watchInterval, s.watch.due.Sub(at))
	}
	if s.ending() {
		d = busyPoll
	}
	if s.command.Timeout > 0 && !s.timedOut && !s.ended {
		d = min(d, s.command.Timeout-at.Sub(s.started))
	}
	for _, due := range []time.Time{s.killAt, s.drainBy} {
		if due.After(at) {
			d = min(d, due.Sub(at))
		}
	}
	return max(d, 0)
}

// ending reports whether the tree was asked to end.
func (s *supervisor) ending() bool { return !s.killAt.IsZero() }

// beginEnd asks the tree to end: SIGTERM now, SIGKILL after grace. The earliest end counts. It is
// the one way in which a tree ends that does not end by itself: a stop, a timeout, and processes
// that the command left behind. Only a tree that exceeds a limit is killed at once.
func (s *supervisor) beginEnd(at time.Time, grace time.Duration) {
	if killAt := at.Add(grace); !s.ending() || killAt.Before(s.killAt) {
		s.killAt = killAt
	}
	s.terminateTree()
}

// readStop reads a new request to stop: from the stop file, or from a signal if there is no
// file. The earliest requested end counts.
func (s *supervisor) readStop(at time.Time) {
	var req stopFile
	grace := s.command.Grace
	switch err := readJSON(s.path(stopName), &req); {
	case err == nil:
		if req.GraceMS == s.stop.GraceMS && req.RequestedAt.Equal(s.stop.RequestedAt) {
			return
		}
		s.stop = req
		grace = fromMS(req.GraceMS)
	case errors.Is(err, Corrupt) && !s.stopSeen:
		// A stop was requested, although the file is damaged; there is nobody to report that to.
	case !s.stopSignalled:
		return
	}
	s.stopSeen = true
	s.cancelled = s.cancelled || !s.ended
	s.stopSignalled = false
	s.beginEnd(at, grace)
}

// writeExit writes the exit record, the last action of a run. It retries for a while, since without
// the record it would never be known how the command ended.
func (s *supervisor) writeExit(e Exit) int {
	const tries = 60
	onStep(s.dir, "supervisor before exit")
	for range tries {
		err := writeJSON(s.dir, exitName, e)
		if err == nil {
			onStep(s.dir, "supervisor left exit")
			return 0
		}
		fmt.Fprintln(os.Stderr, "supervise: write exit record:", err)
		if errors.Is(err, fs.ErrNotExist) {
			return 1 // the run directory was removed, so the record is not needed
		}
		_ = pause(context.Background(), time.Second)
	}
	return 1
}
