package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"
)

// Fault is a kind of fault.
type Fault string

// The kinds of faults.
const (
	Kill Fault = "kill" // SIGKILL
	Stop Fault = "stop" // SIGSTOP, followed by SIGCONT
	Term Fault = "term" // SIGTERM: the server must exit with code 0
	Disk Fault = "disk" // the disk is full for a while
	Away Fault = "away" // the database is killed, and started again later
)

// Faults returns all kinds.
func Faults() []Fault { return []Fault{Kill, Stop, Term, Disk, Away} }

const (
	pauseTime = 20 * time.Millisecond // between two readiness checks
	termTime  = 60 * time.Second      // for a server to exit after SIGTERM
	endTime   = 10 * time.Second      // for a killed process to be gone
	exitFull  = 74                    // exit code of a server that cannot write durably
	// termShare is the fraction of rounds without a kill, if other faults are enabled.
	termShare = 0.3
	// earlyShare is the fraction of kills during the start of the server.
	earlyShare = 0.125
)

// FaultInjector starts a server, injects faults at random times that follow from the seed, and
// starts the server again whenever it has ended, until all kills are done. It is used by one
// goroutine.
type FaultInjector struct {
	Kills      int           // without Kill in Faults: the total number of faults
	Seed       int64         // determines the faults and their times
	Faults     []Fault       // at least one
	MeanUptime time.Duration // mean time from the first response to the next fault
	MaxPause   time.Duration // the longest SIGSTOP
	// Command returns the command of the next start.
	Command func() *exec.Cmd
	// Ready returns nil when the server responds.
	Ready func(context.Context) error
	// Fill fills the server's disk, and Free frees it. Only for Disk.
	Fill, Free func() error
	// StopDatabase kills the database, and Return starts it again. Only for Away.
	StopDatabase, StartDatabase func() error
	Observer                    func(format string, args ...any)

	// Results.
	Done   map[Fault]int
	Starts []Start
	server *running
	dice   *rand.Rand
}

// Start is one process of the server.
type Start struct {
	PID int
	At  time.Time // start time
}

// running is a running server.
type running struct {
	cmd   *exec.Cmd
	ended chan error // capacity 1: the result of the process
}

// Run starts the server and injects faults until all kills are done. Then a server runs without
// faults, until [FaultInjector.LogLen] stops it. A server that exits by itself, or never responds,
// is an error.
func (s *FaultInjector) Run(ctx context.Context) error {
	s.dice = rand.New(rand.NewPCG(uint64(s.Seed), 0x7369656765)) // the seed determines the times
	s.Done = map[Fault]int{}
	for s.faultsLeft() > 0 {
		if err := s.isExpectedExit(s.round(ctx)); err != nil {
			return fmt.Errorf("start %d: %w", len(s.Starts), err)
		}
	}
	if err := s.up(ctx); err != nil {
		return fmt.Errorf("start %d: %w", len(s.Starts), err)
	}
	return nil
}

// faultsLeft returns the number of remaining kills.
func (s *FaultInjector) faultsLeft() int {
	if slices.Contains(s.Faults, Kill) {
		return s.Kills - s.Done[Kill]
	}
	done := 0
	for _, n := range s.Done {
		done += n
	}
	return s.Kills - done
}

// round is one fault: a responding server, some time, and the fault.
func (s *FaultInjector) round(ctx context.Context) error {
	fault, life := s.choose()
	if s.server == nil && fault == Kill && s.dice.Float64() < earlyShare {
		if err := s.start(); err != nil {
			return err
		}
		if err := s.waitAlive(ctx, time.Duration(s.dice.Int64N(int64(300*time.Millisecond)))); err != nil {
			return err
		}
		return s.inject(ctx, fault)
	}
	if err := s.up(ctx); err != nil {
		return err
	}
	if err := s.waitAlive(ctx, life); err != nil {
		return err
	}
	return s.inject(ctx, fault)
}

// choose selects a fault, and the time before it.
func (s *FaultInjector) choose() (Fault, time.Duration) {
	life := min(time.Duration(s.dice.ExpFloat64()*float64(s.MeanUptime)), 5*s.MeanUptime)
	others := slices.DeleteFunc(slices.Clone(s.Faults), func(d Fault) bool { return d == Kill })
	if len(others) < len(s.Faults) && (len(others) == 0 || s.dice.Float64() >= termShare) {
		return Kill, life
	}
	return others[s.dice.IntN(len(others))], life
}

// inject injects one fault.
func (s *FaultInjector) inject(ctx context.Context, fault Fault) error {
	s.Done[fault]++
	pid := s.server.cmd.Process.Pid
	switch fault {
	case Kill:
		_ = s.server.cmd.Process.Kill() // it may have just ended
		<-s.server.ended
		s.server = nil
		s.Observer("killed %d (%d of %d)", pid, s.Done[Kill], s.Kills)
	case Term:
		s.Observer("SIGTERM to %d", pid)
		return s.End(ctx)
	case Stop:
		pause := time.Duration(s.dice.Int64N(int64(s.MaxPause) + 1))
		s.Observer("SIGSTOP to %d for %s", pid, pause.Round(time.Millisecond))
		if err := pauseProcess(s.server.cmd.Process); err != nil {
			return err
		}
		err := s.waitAlive(ctx, pause)
		return errors.Join(err, resumeProcess(s.server.cmd.Process))
	case Disk:
		pause := time.Duration(s.dice.Int64N(int64(s.MaxPause) + 1))
		s.Observer("the disk is full for %s", pause.Round(time.Millisecond))
		if err := s.Fill(); err != nil {
			return err
		}
		err := s.waitAlive(ctx, pause)
		return errors.Join(err, s.Free())
	case Away:
		pause := time.Duration(s.dice.Int64N(int64(s.MaxPause) + 1))
		s.Observer("the database is down for %s", pause.Round(time.Millisecond))
		if err := s.StopDatabase(); err != nil {
			return err
		}
		err := s.waitAlive(ctx, pause)
		return errors.Join(err, s.StartDatabase())
	}
	return nil
}

// isExpectedExit returns err, unless the server has exited because its disk was full, which is
// allowed: then it is started again.
func (s *FaultInjector) isExpectedExit(err error) error {
	var ended *endedError
	var code *exec.ExitError
	if errors.As(err, &ended) && errors.As(ended.err, &code) && code.ExitCode() == exitFull &&
		slices.Contains(s.Faults, Disk) {
		s.Observer("the server exited because its disk was full")
		return nil
	}
	return err
}

// up makes sure that a server responds.
func (s *FaultInjector) up(ctx context.Context) error {
	if s.server == nil {
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

// start starts the server.
func (s *FaultInjector) start() error {
	s.server = &running{cmd: s.Command(), ended: make(chan error, 1)}
	at := time.Now()
	if err := s.server.cmd.Start(); err != nil {
		s.server = nil
		return fmt.Errorf("start the server: %w", err)
	}
	s.Starts = append(s.Starts, Start{PID: s.server.cmd.Process.Pid, At: at})
	go func(r *running) { r.ended <- r.cmd.Wait() }(s.server) // the result is read before the server is forgotten
	return nil
}

// endedError says that the server exited by itself.
type endedError struct{ err error }

func (e *endedError) Error() string {
	return fmt.Sprintf("the server exited by itself: %v", orExit(e.err))
}

// waitAlive waits, and returns an error if the server exits meanwhile.
func (s *FaultInjector) waitAlive(ctx context.Context, life time.Duration) error {
	timer := time.NewTimer(life)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-s.server.ended:
		s.server = nil
		return &endedError{err}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// End stops the server with SIGTERM. It returns an error if the server does not exit in time, or
// not with code 0.
func (s *FaultInjector) End(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	server := s.server
	s.server = nil
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

// Abandon kills the running server, if there is one. Use it to clean up.
func (s *FaultInjector) Abandon() {
	if s.server == nil {
		return
	}
	_ = resumeProcess(s.server.cmd.Process) // it may have ended
	_ = s.server.cmd.Process.Kill()         // likewise
	select {
	case <-s.server.ended:
	case <-time.After(endTime):
	}
	s.server = nil
}

// PID returns the PID of the running server; 0: none.
func (s *FaultInjector) PID() int {
	if s.server == nil {
		return 0
	}
	return s.server.cmd.Process.Pid
}
