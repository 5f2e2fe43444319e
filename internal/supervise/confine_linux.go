package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/perdure/perdure/internal/sandbox"
)

// startConfined executes the command in its sandbox. The int is the exit status that a shell would
// return for the error.
func (s *supervisor) startConfined(program string, null *os.File) (int, error) {
	o := *s.sandbox
	o.Program, o.Argv, o.Env = []byte(program), toBytes(s.command.Argv), toBytes(s.command.Env)
	child, err := sandbox.Launch(o, [3]uintptr{null.Fd(), uintptr(s.pipes[0].wfd), uintptr(s.pipes[1].wfd)})
	if err != nil {
		if child != nil { // the stage is our child, and has ended
			_, _ = syscall.Wait4(child.PID, nil, syscall.WALL, nil)
		}
		s.removeScratch()
		const cannotExecute = 126
		code := cannotExecute
		var refusal *sandbox.Refusal
		if errors.As(err, &refusal) {
			code = refusal.Code
		}
		return code, err
	}
	s.rec.CommandPID, s.initReports = child.PID, child.Ends
	if child.Ends != nil {
		s.initPID = child.PID
	}
	s.rec.Profile, s.rec.Enforced = string(o.Profile), child.Enforced
	s.watch = newWatch(o)
	onStep(s.dir, "supervisor executed")
	return 0, nil
}

// recordEnd records how the command ended, as its init reports it. reported is false if the init
// died before it could report.
func (s *supervisor) recordEnd(ws syscall.WaitStatus, reported bool) {
	if reported {
		s.ended, s.status = true, ws
	}
	s.initReports = nil
}

// recordExit records the end of the process that we started: the command itself, or its init. The
// report of an init takes precedence over its own exit status.
func (s *supervisor) recordExit(ws syscall.WaitStatus) {
	if s.initReports != nil {
		status, reported := <-s.initReports // the init is dead, so this does not block for long
		s.recordEnd(status, reported)
	}
	if !s.ended {
		s.ended, s.status = true, ws
	}
}

// exceedsLimit reports whether the command exceeds a limit, and remembers which.
func (s *supervisor) exceedsLimit(at time.Time) bool {
	if s.limit == "" {
		s.limit = s.watch.exceeded(s, at)
	}
	return s.limit != ""
}

// removeScratch removes the command's scratch directory, unless other commands use it, too.
func (s *supervisor) removeScratch() {
	if s.sandbox == nil || s.sandbox.Kept {
		return
	}
	if err := RemoveHome(string(s.sandbox.Scratch)); err != nil {
		fmt.Fprintln(os.Stderr, "supervise: remove scratch folder:", err)
	}
}
