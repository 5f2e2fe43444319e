package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Server is a server under test. It is used by one goroutine.
type Server struct {
	// Command returns the command of the next start.
	Command func() *exec.Cmd
	// Ready returns nil when the server responds.
	Ready func(context.Context) error

	starts []Start
	now    *running // nil: it does not run
}

// Start is one process of a server.
type Start struct {
	PID int
	At  time.Time // start time
}

// running is a running process.
type running struct {
	cmd   *exec.Cmd
	ended chan error // capacity 1: the result of the process
}

func (s *Server) runs() bool { return s.now != nil }

// pid returns the PID of the running process.
func (s *Server) pid() int { return s.now.cmd.Process.Pid }

// up makes sure that the server responds.
func (s *Server) up(ctx context.Context) error {
	if s.now == nil {
		if err := s.start(); err != nil {
			return err
		}
	}
	limit, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := s.Ready(limit)
		if err == nil {
			return nil
		}
		if ended := s.waitAlive(limit, pauseTime); ended != nil {
			if limit.Err() != nil && ctx.Err() == nil {
				return fmt.Errorf("the server did not respond within %s: %w", startTime, err)
			}
			return ended
		}
	}
}

func (s *Server) start() error {
	now := &running{cmd: s.Command(), ended: make(chan error, 1)}
	at := time.Now()
	if err := now.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	s.now = now
	s.starts = append(s.starts, Start{PID: s.pid(), At: at})
	go func() { now.ended <- now.cmd.Wait() }() // the result is read before the process is forgotten
	return nil
}

// endedError says that the server exited by itself.
type endedError struct{ err error }

func (e *endedError) Error() string {
	return fmt.Sprintf("the server exited by itself: %v", orExit(e.err))
}

// waitAlive waits, and returns an error if the server exits meanwhile.
func (s *Server) waitAlive(ctx context.Context, life time.Duration) error {
	timer := time.NewTimer(life)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-s.now.ended:
		s.now = nil
		return &endedError{err}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// during begins a fault, waits while the server is affected by it, and ends the fault.
func (s *Server) during(ctx context.Context, pause time.Duration, begin, end func() error) error {
	if err := begin(); err != nil {
		return err
	}
	err := s.waitAlive(ctx, pause)
	return errors.Join(err, end())
}

func (s *Server) suspend() error { return pauseProcess(s.now.cmd.Process) }

// resume continues the process, if it has not ended.
func (s *Server) resume() error {
	if s.now == nil {
		return nil
	}
	return resumeProcess(s.now.cmd.Process)
}

// kill kills the process and waits until it is gone.
func (s *Server) kill() {
	_ = s.now.cmd.Process.Kill() // it may have just ended
	<-s.now.ended
	s.now = nil
}

// End stops the server with SIGTERM, if it runs. It returns an error if the server does not exit in
// time, or not with code 0.
func (s *Server) End(ctx context.Context) error {
	if s.now == nil {
		return nil
	}
	server := s.now
	s.now = nil
	if err := terminate(server.cmd.Process); err != nil {
		_ = server.cmd.Process.Kill() // it may have ended
	}
	timer := time.NewTimer(termTime)
	defer timer.Stop()
	var late error
	select {
	case err := <-server.ended:
		if err != nil {
			return fmt.Errorf("after SIGTERM the server exited with %w, want exit code 0", err)
		}
		return nil
	case <-timer.C:
		late = fmt.Errorf("the server was still running %s after SIGTERM", termTime)
	case <-ctx.Done():
		late = context.Cause(ctx)
	}
	_ = server.cmd.Process.Kill() // likewise
	<-server.ended
	return late
}

// abandon kills the process, if there is one.
func (s *Server) abandon() {
	if s.now == nil {
		return
	}
	_ = resumeProcess(s.now.cmd.Process) // it may have ended
	_ = s.now.cmd.Process.Kill()         // likewise
	select {
	case <-s.now.ended:
	case <-time.After(endTime):
	}
	s.now = nil
}
