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

// story tells what happens, from the journal, as it happens. Its methods are called one after another.
type story struct {
	demo  Crash
	ctx   context.Context // of the reads; the story is told even when the demo is cut short
	seen  map[perdure.SessionID]int64
	known map[perdure.TaskID]string // settled results as they were seen
	dead  time.Time
}

var _ chaos.Teller = (*story)(nil)

// begin introduces the demo.
func (s *story) begin() {
	s.demo.line("perdure %s · scripted model, no network · data %s · seed %d", s.demo.Version, s.demo.Dir, s.demo.Seed)
	s.demo.line("  build   at_most_once  background  a real command, under a supervisor that outlives the runtime")
	s.demo.line("  label   idempotent    foreground  may run again, under the same key")
	s.demo.line("  charge  at_most_once  foreground  writes to a ledger outside; must never run twice")
}

// Up says that the program moves again, and what it took up.
func (s *story) Up(pid int, took time.Duration) {
	if s.dead.IsZero() {
		s.demo.line("  process %d is at work; it will be killed %s", pid, times(s.demo.Kills))
		return
	}
	s.demo.line("✓ %s back as %d, at work again after %d ms", clock(), pid, took.Milliseconds())
}

// Down says that the program was killed, and what it left behind.
func (s *story) Down(pid, kill int) {
	s.sinceThen()
	s.dead = time.Now()
	running, claimed := s.open()
	s.demo.line("✗ %s killed %d (%d of %d): %d tasks running, %d calls claimed and not settled", clock(), pid, kill, s.demo.Kills, running, claimed)
}

// sinceThen tells what the start before did: what it took up, and what came home.
func (s *story) sinceThen() {
	if found := s.look(); found != "" {
		s.demo.line("    %s", found)
	}
}

// open counts what was in work when the program died.
func (s *story) open() (running, claimed int) {
	s.read(func(eng engine.Engine) error {
		tasks, err := eng.Tasks(s.ctx, "")
		for _, task := range tasks {
			if task.State == perdure.TaskRunning {
				running++
			}
		}
		return err
	})
	s.read(func(eng engine.Engine) error {
		sessions, err := eng.Sessions(s.ctx, 0)
		if err != nil {
			return err
		}
		for _, session := range sessions {
			calls, err := eng.Calls(s.ctx, session.ID)
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

// look reads what is new in the journals: what was taken up, and what came home. It is empty if nothing is.
func (s *story) look() string {
	counts := map[string]int{}
	s.read(func(eng engine.Engine) error {
		sessions, err := eng.Sessions(s.ctx, 0)
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

// note counts one event of the story.
func (s *story) note(event perdure.Event, counts map[string]int) {
	switch f := event.Fact.(type) {
	case perdure.TaskReattached:
		counts[takeOverWord(f.How)]++
	case perdure.ToolTakenOver:
		counts[takeOverWord(f.How)]++
	case perdure.TaskDelivered:
		counts["delivered"]++
	case perdure.TaskUpdated:
		if f.Task.State.Terminal() && f.Task.State != perdure.TaskUnknown {
			s.known[f.Task.ID] = chaos.TaskResult(f.Task)
		}
	}
}

func takeOverWord(how perdure.TakeOver) string {
	switch how {
	case perdure.Adopt:
		return "adopted"
	case perdure.MakeUnknown:
		return "unknown"
	}
	return "ran again"
}

// read opens the data for reading. A story that cannot read it for a moment goes on without: the verdict
// reads everything again.
func (s *story) read(fn func(engine.Engine) error) {
	eng, closer, err := s.demo.Open(s.ctx, filepath.Join(s.demo.Dir, "data"))
	if err != nil {
		fmt.Fprintf(s.demo.Talk, "demo: %v\n", err)
		return
	}
	defer closer.Close()
	if err := fn(eng); err != nil {
		fmt.Fprintf(s.demo.Talk, "demo: %v\n", err)
	}
}

func clock() string { return time.Now().Format("15:04:05.000") }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
