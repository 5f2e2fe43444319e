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

// How often a supervisor looks without having been woken: for a stop file, and for processes that are not its children.
const (
	idleLook = 200 * time.Millisecond
	busyLook = 20 * time.Millisecond
)

// supervisor is the process that a command runs under. One goroutine owns it; the pumps share only the output file.
type supervisor struct {
	dir     string
	host    string
	command Command
	sandbox *sandbox.Order // nil: the command is not confined
	rec     Record
	broken  error // why the command cannot be started, though we have the ticket

	// Signals. One place each: a signal only says that there is something to look at.
	asks chan os.Signal // SIGTERM, SIGINT
	wake chan os.Signal // SIGCHLD and the like

	out     *outputFile
	pipes   [2]*pipe
	drained chan struct{} // closed when both streams are at their end; nil when that was seen

	started   time.Time
	ended     bool // the command's first process was reaped
	childless bool // the kernel says that we have no children, hence no descendants
	status    syscall.WaitStatus
	ends      <-chan syscall.WaitStatus // the command's end, told by its init; nil: the kernel tells
	watch     *watch                    // nil: nothing is limited
	limit     string                    // which limit was exceeded
	drainBy   time.Time                 // when waiting for the end of the streams ends; zero before it begins

	asked     bool     // a signal asked for the end
	stop      stopFile // the last request that was seen
	killAt    time.Time
	cancelled bool
	timedOut  bool
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

// supervise runs the command to its end, and returns when nothing of its tree is left.
func (s *supervisor) supervise() Exit {
	// Pdeathsig hangs on the thread that forks: it must last as long as we do.
	runtime.LockOSThread()
	s.started = time.Now()
	e := Exit{Version: version, StartedAt: now(), TreeGone: true}
	if code, err := s.start(); err != nil {
		e.Code, e.Error, e.EndedAt = code, err.Error(), now()
		s.out.close(&e)
		return e
	}
	s.tellCommand() // before any output: who has read of a command can prove what is left of it when we are dead
	pumps := s.startPumps()
	debug.FreeOSMemory() // the host program's start has left garbage behind, and we may live for days

	s.await()
	s.killTree()
	for _, p := range s.pipes {
		_ = p.hurry() // fails only where the pump is done
	}
	pumps.Wait()
	s.removeScratch()

	e.EndedAt, e.TimedOut, e.Cancelled = now(), s.timedOut, s.cancelled
	e.Limit = s.limit
	e.Code = s.status.ExitStatus()
	if s.status.Signaled() {
		e.Signal = int(s.status.Signal())
		e.Code = 128 + e.Signal
	}
	s.out.close(&e)
	return e
}

// startPumps begins to read both streams.
func (s *supervisor) startPumps() *sync.WaitGroup {
	var pumps sync.WaitGroup
	for _, p := range s.pipes {
		p.handOver()
		pumps.Go(p.pump)
	}
	s.drained = make(chan struct{})
	go func() { // ends with the pumps, which supervise waits for
		pumps.Wait()
		close(s.drained)
	}()
	return &pumps
}

// tellCommand adds the command to the record, for those who find us dead. It is not needed for anything else.
func (s *supervisor) tellCommand() {
	p, ok := readProcess(s.rec.CommandPID)
	if !ok {
		return
	}
	s.rec.CommandStartTime = p.start
	if err := replaceJSON(s.dir, recordName, s.rec); err != nil {
		fmt.Fprintln(os.Stderr, "supervise: tell the command's pid:", err)
	}
}

// await returns when the command's part is over, or time is: then the tree is to be killed.
func (s *supervisor) await() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	drained := s.drained
	for !s.runOnce(time.Now(), drained == nil) {
		timer.Reset(s.nextLook(time.Now()))
		select {
		case <-s.asks:
			s.asked = true
		case <-s.wake:
		case <-drained:
			drained = nil
		case ws, ok := <-s.ends:
			s.take(ws, ok)
		case <-timer.C:
		}
	}
}

// runOnce looks at everything there is to see, and reports whether waiting is over.
func (s *supervisor) runOnce(at time.Time, drained bool) bool {
	s.reap()
	s.lookForStop(at)
	switch {
	case s.command.Timeout > 0 && at.Sub(s.started) >= s.command.Timeout:
		s.timedOut = !s.ended
		return true
	case s.stopping() && !at.Before(s.killAt):
		return true
	case s.overrun(at):
		return true
	case !s.ended, s.stopping() && s.groupLives():
		return false
	case drained:
		return true
	case s.drainBy.IsZero():
		s.drainBy = at.Add(s.command.Drain)
		return false
	}
	return !at.Before(s.drainBy)
}

// nextLook is how long nothing can become due.
func (s *supervisor) nextLook(at time.Time) time.Duration {
	d := idleLook
	if s.watch != nil {
		d = watchLook
	}
	if s.stopping() {
		d = busyLook
	}
	if s.command.Timeout > 0 {
		d = min(d, s.command.Timeout-at.Sub(s.started))
	}
	for _, due := range []time.Time{s.killAt, s.drainBy} {
		if !due.IsZero() {
			d = min(d, due.Sub(at))
		}
	}
	return max(d, 0)
}

func (s *supervisor) stopping() bool { return !s.killAt.IsZero() }

// lookForStop takes a new request to end: from the stop file, or from a signal where there is no file. The earliest end
// that anybody asked for counts.
func (s *supervisor) lookForStop(at time.Time) {
	var req stopFile
	grace := s.command.Grace
	switch err := readJSON(s.path(stopName), &req); {
	case err == nil:
		if req.GraceMS == s.stop.GraceMS && req.RequestedAt.Equal(s.stop.RequestedAt) {
			return
		}
		s.stop = req
		grace = fromMS(req.GraceMS)
	case errors.Is(err, Corrupt) && !s.stopping():
		// Somebody wanted the end, that much is clear; there is nobody here to tell what is wrong with it.
	case !s.asked:
		return
	}
	if killAt := at.Add(grace); !s.stopping() || killAt.Before(s.killAt) {
		s.killAt = killAt
	}
	s.cancelled = s.cancelled || !s.ended
	s.asked = false
	s.signalGroup(syscall.SIGTERM)
}

// leave writes the exit record, the last thing that a run does. It tries for a while, for without the record nobody will
// ever know how the command ended.
func (s *supervisor) leave(e Exit) int {
	const tries = 60
	reached(s.dir, "supervisor before exit")
	for range tries {
		err := writeJSON(s.dir, exitName, e)
		if err == nil {
			reached(s.dir, "supervisor left exit")
			return 0
		}
		fmt.Fprintln(os.Stderr, "supervise: write exit record:", err)
		if errors.Is(err, fs.ErrNotExist) {
			return 1 // the run directory was removed, and nobody will ask
		}
		_ = pause(context.Background(), time.Second)
	}
	return 1
}
