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
	Cut  Fault = "cut"  // the outside scheduler cannot be reached for a while
	Wipe Fault = "wipe" // the outside scheduler loses everything that it knows
)

// Faults returns all kinds.
func Faults() []Fault { return []Fault{Kill, Stop, Term, Disk, Away, Cut, Wipe} }

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

// FaultInjector starts servers, injects faults at random times that follow from the seed, and
// starts a server again whenever it has ended, until all kills are done. It is used by one
// goroutine.
type FaultInjector struct {
	Kills      int           // without Kill in Faults: the total number of faults
	Seed       int64         // determines the faults and their times
	Faults     []Fault       // at least one
	MeanUptime time.Duration // mean time from the first response to the next fault
	MinPause   time.Duration // the shortest time that a fault lasts, if it is no kill
	MaxPause   time.Duration // the longest one
	Servers    []*Server     // at least one; the seed selects the one that a fault hits
	// Fill fills the disk of the servers, and Free frees it. Only for Disk.
	Fill, Free func() error
	// StopDatabase kills the database, and Return starts it again. Only for Away.
	StopDatabase, StartDatabase func() error
	// CutScheduler makes the outside scheduler unreachable, and RestoreScheduler reachable again.
	// Only for Cut.
	CutScheduler, RestoreScheduler func() error
	// WipeScheduler makes the outside scheduler lose everything. Only for Wipe.
	WipeScheduler func() error
	Observer      func(format string, args ...any)

	// Results.
	Done map[Fault]int
	dice *rand.Rand
}

// Run starts the servers and injects faults until all kills are done. Then the servers run without
// faults, until [FaultInjector.End] stops them. A server that exits by itself, or never responds,
// is an error.
func (s *FaultInjector) Run(ctx context.Context) error {
	s.dice = rand.New(rand.NewPCG(uint64(s.Seed), 0x7369656765)) // the seed determines the times
	s.Done = map[Fault]int{}
	for s.faultsLeft() > 0 {
		if err := s.isExpectedExit(s.round(ctx)); err != nil {
			return fmt.Errorf("start %d: %w", len(s.Starts()), err)
		}
	}
	if err := s.up(ctx); err != nil {
		return fmt.Errorf("start %d: %w", len(s.Starts()), err)
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

// round is one fault: servers that respond, some time, and the fault at one of them.
func (s *FaultInjector) round(ctx context.Context) error {
	fault, life := s.choose()
	hit := s.Servers[0]
	if len(s.Servers) > 1 {
		hit = s.Servers[s.dice.IntN(len(s.Servers))]
	}
	if !hit.runs() && fault == Kill && s.dice.Float64() < earlyShare {
		if err := hit.start(); err != nil {
			return err
		}
		if err := hit.waitAlive(ctx, time.Duration(s.dice.Int64N(int64(300*time.Millisecond)))); err != nil {
			return err
		}
		return s.inject(ctx, fault, hit)
	}
	if err := s.up(ctx); err != nil {
		return err
	}
	if err := hit.waitAlive(ctx, life); err != nil {
		return err
	}
	return s.inject(ctx, fault, hit)
}

// up makes sure that every server responds.
func (s *FaultInjector) up(ctx context.Context) error {
	for _, one := range s.Servers {
		if err := one.up(ctx); err != nil {
			return err
		}
	}
	return nil
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

// inject injects one fault: at a server, or at what all of them use.
func (s *FaultInjector) inject(ctx context.Context, fault Fault, hit *Server) error {
	s.Done[fault]++
	pid := hit.pid()
	switch fault {
	case Kill:
		hit.kill()
		s.Observer("killed %d (%d of %d)", pid, s.Done[Kill], s.Kills)
		return nil
	case Term:
		s.Observer("SIGTERM to %d", pid)
		return hit.End(ctx)
	case Stop:
		pause := s.pause()
		s.Observer("SIGSTOP to %d for %s", pid, pause.Round(time.Millisecond))
		return hit.during(ctx, pause, hit.suspend, hit.resume)
	case Disk:
		pause := s.pause()
		s.Observer("the disk is full for %s", pause.Round(time.Millisecond))
		return hit.during(ctx, pause, s.Fill, s.Free)
	case Away:
		pause := s.pause()
		s.Observer("the database is down for %s", pause.Round(time.Millisecond))
		return hit.during(ctx, pause, s.StopDatabase, s.StartDatabase)
	case Cut:
		pause := s.pause()
		s.Observer("the scheduler cannot be reached for %s", pause.Round(time.Millisecond))
		return hit.during(ctx, pause, s.CutScheduler, s.RestoreScheduler)
	case Wipe:
		s.Observer("the scheduler loses everything")
		return s.WipeScheduler()
	}
	return nil
}

// pause returns how long the next fault lasts.
func (s *FaultInjector) pause() time.Duration {
	return s.MinPause + time.Duration(s.dice.Int64N(int64(s.MaxPause-s.MinPause)+1))
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

// End stops all servers with SIGTERM. It returns an error if one does not exit in time, or not with
// code 0.
func (s *FaultInjector) End(ctx context.Context) error {
	var errs []error
	for _, one := range s.Servers {
		errs = append(errs, one.End(ctx))
	}
	return errors.Join(errs...)
}

// Abandon kills the running servers. Use it to clean up.
func (s *FaultInjector) Abandon() {
	for _, one := range s.Servers {
		one.abandon()
	}
}

// Starts returns the processes of all servers, in the order of their starts.
func (s *FaultInjector) Starts() []Start {
	var all []Start
	for _, one := range s.Servers {
		all = append(all, one.starts...)
	}
	slices.SortStableFunc(all, func(a, b Start) int { return a.At.Compare(b.At) })
	return all
}

// PIDs returns the PIDs of the running servers.
func (s *FaultInjector) PIDs() []int {
	var all []int
	for _, one := range s.Servers {
		if one.runs() {
			all = append(all, one.pid())
		}
	}
	return all
}
