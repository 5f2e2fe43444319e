package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// crashReporter prints what happens, from the journal, while it happens. Its methods are called one
// after another.
type crashReporter struct {
	demo  Crash
	ctx   context.Context // of the reads; the story is printed even when the demo is interrupted
	live  context.Context // of the demo
	seen  map[perdure.SessionID]int64
	known map[perdure.TaskID]string // settled results as they were seen
	dead  time.Time
}

var _ chaos.LoopObserver = (*crashReporter)(nil)

// begin introduces the demo.
func (s *crashReporter) begin() {
	s.demo.line("perdure %s · scripted model, no network · data %s · seed %d", s.demo.Version, s.demo.Dir, s.demo.Seed)
	s.demo.line("  build   at_most_once  background  a real command; its supervisor survives the kills")
	s.demo.line("  label   idempotent    foreground  can run again with the same key")
	s.demo.line("  charge  at_most_once  foreground  writes to an external ledger; must never run twice")
	if s.demo.Pages == nil {
		s.demo.line("  the same in your browser: perdure demo crash --ui")
	}
}

// Up prints that the program works again.
func (s *crashReporter) Up(pid int, took time.Duration) {
	if s.dead.IsZero() {
		if s.demo.Pages != nil {
			s.invite()
			s.begin()
		}
		s.demo.line("  process %d is running; it will be killed %s", pid, times(s.demo.Kills))
		return
	}
	s.demo.line("✓ %s restarted as %d, working again after %d ms", clock(), pid, took.Milliseconds())
}

// invite waits for a browser before the first kill. Without one, the story begins, too.
func (s *crashReporter) invite() {
	if err := s.demo.invite(s.live); err != nil && s.live.Err() == nil {
		fmt.Fprintln(s.demo.Stderr, err)
	}
}

// Down prints that the program was killed, and what was unfinished.
func (s *crashReporter) Down(pid, kill int) {
	s.printRecovered()
	s.dead = time.Now()
	running, claimed := s.open()
	s.demo.line("✗ %s killed %d (%d of %d): %d tasks running, %d calls claimed and not settled", clock(), pid, kill,
		s.demo.Kills, running, claimed)
}

// printRecovered prints what the previous process did: what it recovered and delivered.
func (s *crashReporter) printRecovered() {
	if found := s.changesSince(); found != "" {
		s.demo.line("    %s", found)
	}
}

// open counts the unfinished work at the time of the kill.
func (s *crashReporter) open() (running, claimed int) {
	s.read(func(eng engine.Engine) error {
		tasks, err := eng.Tasks().List(s.ctx, "")
		for _, task := range tasks {
			if task.State == perdure.TaskRunning {
				running++
			}
		}
		return err
	})
	s.read(func(eng engine.Engine) error {
		sessions, err := eng.Sessions().List(s.ctx, 0)
		if err != nil {
			return err
		}
		for _, session := range sessions {
			calls, err := eng.Calls().List(s.ctx, session.ID)
			if err != nil {
				return err
			}
			for _, call := range calls {
				if call.State == perdure.CallRunning && call.Task == "" {
					claimed++
				}
			}
		}
		return nil
	})
	return running, claimed
}

// changesSince reads new events and summarizes what was recovered and delivered. It is empty if
// there is nothing.
func (s *crashReporter) changesSince() string {
	counts := map[string]int{}
	s.read(func(eng engine.Engine) error {
		sessions, err := eng.Sessions().List(s.ctx, 0)
		if err != nil {
			return err
		}
		for _, session := range sessions {
			events, err := eng.Events(s.ctx, session.ID, s.seen[session.ID], 0)
			if err != nil {
				return err
			}
			for _, event := range events {
				s.seen[session.ID] = event.Seq
				s.note(event, counts)
			}
		}
		return nil
	})
	var parts []string
	for _, what := range []string{"adopted", "ran again", "unknown", "delivered"} {
		if n := counts[what]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	return strings.Join(parts, ", ")
}

// note counts one event.
func (s *crashReporter) note(event perdure.Event, counts map[string]int) {
	switch f := event.Fact.(type) {
	case perdure.TaskReattached:
		counts[recoveryName(f.How)]++
	case perdure.ToolTakenOver:
		counts[recoveryName(f.How)]++
	case perdure.TaskDelivered:
		counts["delivered"]++
	case perdure.TaskUpdated:
		if f.Task.State.Terminal() && f.Task.State != perdure.TaskUnknown {
			s.known[f.Task.ID] = chaos.TaskResult(f.Task)
		}
	}
}

func recoveryName(how perdure.TakeOver) string {
	switch how {
	case perdure.TakeOverAdopt:
		return "adopted"
	case perdure.TakeOverUnknown:
		return "unknown"
	}
	return "ran again"
}

// read opens the data read-only. After an error the story continues without it, since the final
// report reads everything again.
func (s *crashReporter) read(fn func(engine.Engine) error) {
	eng, closer, err := s.demo.Open(s.ctx, filepath.Join(s.demo.Dir, "data"))
	if err != nil {
		fmt.Fprintf(s.demo.Stderr, "demo: %v\n", err)
		return
	}
	defer closer.Close()
	if err := fn(eng); err != nil {
		fmt.Fprintf(s.demo.Stderr, "demo: %v\n", err)
	}
}

func clock() string { return time.Now().Format("15:04:05.000") }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
