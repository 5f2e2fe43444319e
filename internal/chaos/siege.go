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

// Disturbance is one way to disturb a server.
type Disturbance string

// The disturbances.
const (
	Kill Disturbance = "kill" // SIGKILL
	Stop Disturbance = "stop" // SIGSTOP, and SIGCONT after a while
	Term Disturbance = "term" // SIGTERM: it ends by itself, with exit code 0
	Disk Disturbance = "disk" // the disk is full for a while
	Away Disturbance = "away" // the database is killed, and starts again after a while
)

// Disturbances returns all of them.
func Disturbances() []Disturbance { return []Disturbance{Kill, Stop, Term, Disk, Away} }

const (
	pauseTime = 20 * time.Millisecond // between two looks whether a server answers
	termTime  = 60 * time.Second      // for a server to end after SIGTERM
	endTime   = 10 * time.Second      // for a killed one to be gone
	exitFull  = 74                    // of a server that cannot promise durability
	// gentle is the share of rounds that are no kill, where other faults are asked for.
	gentle = 0.3
	// early is the share of lives that end while the server still starts.
	early = 0.125
)

// Siege starts a server, disturbs it at seeded random moments, and starts it again whenever it has ended, until the
// kills are used up. It is used by one goroutine.
type Siege struct {
	Kills    int           // without Kill among Faults: the number of faults in all
	Seed     int64         // decides which fault comes, and when
	Faults   []Disturbance // at least one
	MeanLife time.Duration // from the first answer to the next fault
	MaxPause time.Duration // the longest SIGSTOP
	// Command makes the server's next start.
	Command func() *exec.Cmd
	// Ready returns nil when the server answers.
	Ready func(context.Context) error
	// Fill leaves no room on the server's disk, and Free gives it back. Only for Disk.
	Fill, Free func() error
	// Leave kills the database, and Return starts it again. Only for Away.
	Leave, Return func() error
	Tell          func(format string, args ...any)

	// What happened.
	Done   map[Disturbance]int
	Starts []Start
	server *running
	dice   *rand.Rand
}

// Start is one life of the server.
type Start struct {
	PID int
	At  time.Time // when it was started
}

// running is a server that runs.
type running struct {
	cmd   *exec.Cmd
	ended chan error // capacity 1: how it ended
}

// Run starts the server and disturbs it until the kills are used up. Then a server runs undisturbed; [Siege.End] ends
// it. A server that ends by itself, or never answers, is an error.
func (s *Siege) Run(ctx context.Context) error {
	s.dice = rand.New(rand.NewPCG(uint64(s.Seed), 0x7369656765)) // the seed alone decides when
	s.Done = map[Disturbance]int{}
	for s.left() > 0 {
		if err := s.excused(s.round(ctx)); err != nil {
			return fmt.Errorf("start %d: %w", len(s.Starts), err)
		}
	}
	if err := s.up(ctx); err != nil {
		return fmt.Errorf("start %d: %w", len(s.Starts), err)
	}
	return nil
}

// left is how many kills are to come.
func (s *Siege) left() int {
	if slices.Contains(s.Faults, Kill) {
		return s.Kills - s.Done[Kill]
	}
	done := 0
	for _, n := range s.Done {
		done += n
	}
	return s.Kills - done
}

// round is one fault: a server that answers, some time of its life, and the fault.
func (s *Siege) round(ctx context.Context) error {
	fault, life := s.choose()
	if s.server == nil && fault == Kill && s.dice.Float64() < early {
		if err := s.start(); err != nil {
			return err
		}
		if err := s.live(ctx, time.Duration(s.dice.Int64N(int64(300*time.Millisecond)))); err != nil {
			return err
		}
		return s.disturb(ctx, fault)
	}
	if err := s.up(ctx); err != nil {
		return err
	}
	if err := s.live(ctx, life); err != nil {
		return err
	}
	return s.disturb(ctx, fault)
}

// choose throws the dice for a fault and for the life before it.
func (s *Siege) choose() (Disturbance, time.Duration) {
	life := min(time.Duration(s.dice.ExpFloat64()*float64(s.MeanLife)), 5*s.MeanLife)
	others := slices.DeleteFunc(slices.Clone(s.Faults), func(d Disturbance) bool { return d == Kill })
	if len(others) < len(s.Faults) && (len(others) == 0 || s.dice.Float64() >= gentle) {
		return Kill, life
	}
	return others[s.dice.IntN(len(others))], life
}

// disturb carries out one fault.
func (s *Siege) disturb(ctx context.Context, fault Disturbance) error {
	s.Done[fault]++
	pid := s.server.cmd.Process.Pid
	switch fault {
	case Kill:
		_ = s.server.cmd.Process.Kill() // it may just have ended
		<-s.server.ended
		s.server = nil
		s.Tell("killed %d (%d of %d)", pid, s.Done[Kill], s.Kills)
	case Term:
		s.Tell("SIGTERM to %d", pid)
		return s.End(ctx)
	case Stop:
		pause := time.Duration(s.dice.Int64N(int64(s.MaxPause) + 1))
		s.Tell("SIGSTOP to %d for %s", pid, pause.Round(time.Millisecond))
		if err := pauseProcess(s.server.cmd.Process); err != nil {
			return err
		}
		err := s.live(ctx, pause)
		return errors.Join(err, resumeProcess(s.server.cmd.Process))
	case Disk:
		pause := time.Duration(s.dice.Int64N(int64(s.MaxPause) + 1))
		s.Tell("the disk is full for %s", pause.Round(time.Millisecond))
		if err := s.Fill(); err != nil {
			return err
		}
		err := s.live(ctx, pause)
		return errors.Join(err, s.Free())
	case Away:
		pause := time.Duration(s.dice.Int64N(int64(s.MaxPause) + 1))
		s.Tell("the database is away for %s", pause.Round(time.Millisecond))
		if err := s.Leave(); err != nil {
			return err
		}
		err := s.live(ctx, pause)
		return errors.Join(err, s.Return())
	}
	return nil
}

// excused passes an error on, unless the server has ended because its disk was full, as it may: then it is started
// again.
func (s *Siege) excused(err error) error {
	var ended *endedError
	var code *exec.ExitError
	if errors.As(err, &ended) && errors.As(ended.err, &code) && code.ExitCode() == exitFull && slices.Contains(s.Faults, Disk) {
		s.Tell("it ended, since its disk was full")
		return nil
	}
	return err
}

// up makes sure that a server answers.
func (s *Siege) up(ctx context.Context) error {
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
		if ended := s.live(limit, pauseTime); ended != nil {
			if limit.Err() != nil && ctx.Err() == nil {
				return fmt.Errorf("it does not answer within %s: %w", startTime, err)
			}
			return ended
		}
	}
}

// start starts the server.
func (s *Siege) start() error {
	s.server = &running{cmd: s.Command(), ended: make(chan error, 1)}
	at := time.Now()
	if err := s.server.cmd.Start(); err != nil {
		s.server = nil
		return fmt.Errorf("start the server: %w", err)
	}
	s.Starts = append(s.Starts, Start{PID: s.server.cmd.Process.Pid, At: at})
	go func(r *running) { r.ended <- r.cmd.Wait() }(s.server) // it is read before the server is forgotten
	return nil
}

// endedError says that the server ended by itself.
type endedError struct{ err error }

func (e *endedError) Error() string { return fmt.Sprintf("it ended by itself: %v", orEnd(e.err)) }

// live lets the server live for a while.
func (s *Siege) live(ctx context.Context, life time.Duration) error {
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

// End ends the server with SIGTERM. It is an error if it does not end in time, or not with exit code 0.
func (s *Siege) End(ctx context.Context) error {
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
			return fmt.Errorf("after SIGTERM it ended with %w, want exit code 0", err)
		}
		return nil
	case <-timer.C:
		late = fmt.Errorf("it had not ended %s after SIGTERM", termTime)
	case <-ctx.Done():
		late = context.Cause(ctx)
	}
	_ = server.cmd.Process.Kill() // likewise
	<-server.ended
	return late
}

// Abandon ends whatever runs, at once. It is for a siege that goes no further.
func (s *Siege) Abandon() {
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

// PID is that of the server that runs; 0: none does.
func (s *Siege) PID() int {
	if s.server == nil {
		return 0
	}
	return s.server.cmd.Process.Pid
}
