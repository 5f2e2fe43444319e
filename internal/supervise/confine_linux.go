package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/perdure/perdure/internal/sandbox"
)

// startConfined executes the command in its sandbox. The status is what a shell would give for the error.
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
	s.rec.CommandPID, s.ends = child.PID, child.Ends
	s.rec.Profile, s.rec.Enforced = string(o.Profile), child.Enforced
	s.watch = newWatch(o)
	reached(s.dir, "supervisor executed")
	return 0, nil
}

// take is the word of an init: how the command ended, or nothing where the init died first.
func (s *supervisor) take(ws syscall.WaitStatus, told bool) {
	if told {
		s.ended, s.status = true, ws
	}
	s.ends = nil
}

// settle is the end of the process that we started: the command, or its init, whose word comes before its own status.
func (s *supervisor) settle(ws syscall.WaitStatus) {
	if s.ends != nil {
		said, told := <-s.ends // it is dead, so this cannot wait for long
		s.take(said, told)
	}
	if !s.ended {
		s.ended, s.status = true, ws
	}
}

// overrun reports whether the command is beyond a limit, and keeps which.
func (s *supervisor) overrun(at time.Time) bool {
	if s.limit == "" {
		s.limit = s.watch.exceeded(s, at)
	}
	return s.limit != ""
}

// removeScratch takes the command's own folder away.
func (s *supervisor) removeScratch() {
	if s.sandbox == nil {
		return
	}
	if err := os.RemoveAll(string(s.sandbox.Scratch)); err != nil {
		fmt.Fprintln(os.Stderr, "supervise: remove scratch folder:", err)
	}
}
