package supervise_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/supervise"
)

// TestR02TicketPoints kills the runtime, or the supervisor and then the runtime, at each step of
// the ticket protocol. The next runtime gets the right answer: a revoked command has not run and
// never will, and an ended one has run once.
func TestR02TicketPoints(t *testing.T) {
	t.Parallel()
	const none, once = "", "ran\n"
	for _, point := range []struct {
		step  string
		finds []supervise.Remains
		ran   []string // what the command may have left
	}{
		{"runtime prepared", []supervise.Remains{supervise.Revoked}, []string{none}},
		{"runtime wrote command", []supervise.Remains{supervise.Revoked}, []string{none}},
		{"runtime launched", []supervise.Remains{supervise.Revoked, supervise.Alive, supervise.Ended}, []string{none, once}},
		{"runtime started", []supervise.Remains{supervise.Alive, supervise.Ended}, []string{once}},
		{"supervisor before ticket", []supervise.Remains{supervise.Revoked}, []string{none}},
		{"supervisor has ticket", []supervise.Remains{supervise.Gone}, []string{none}},
		{"supervisor recorded", []supervise.Remains{supervise.Gone}, []string{none}},
		{"supervisor executed", []supervise.Remains{supervise.Gone}, []string{none, once}},
		{"supervisor before exit", []supervise.Remains{supervise.Gone}, []string{once}},
		{"supervisor left exit", []supervise.Remains{supervise.Ended}, []string{once}},
	} {
		t.Run(strings.ReplaceAll(point.step, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			root, ran := filepath.Dir(s.dir), filepath.Join(t.TempDir(), "ran")
			s.dir = filepath.Join(root, "0") // where the fixture puts its first command
			if err := os.MkdirAll(root, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.dir+".dies_at", []byte(point.step), 0o600); err != nil {
				t.Fatal(err)
			}

			runtime := exec.CommandContext(s.soon(), self(), runtimeMode, root, filepath.Join(root, "lock"), "echo ran >>"+ran)
			runtime.Env = s.env()
			said, err := runtime.StdoutPipe()
			if err == nil {
				err = runtime.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			_, _ = said.Read(make([]byte, 10)) // it has started the command, or has ended
			if strings.HasPrefix(point.step, "supervisor") {
				s.awaitDeath(point.step)
			}
			_ = runtime.Process.Kill() // where it has not died by itself
			_ = runtime.Wait()

			found, run, err := newLocal(t).Find(s.soon(), s.dir)
			if err != nil || !slices.Contains(point.finds, found) {
				t.Fatalf("Find answers %s, %v, want one of %v", found, err, point.finds)
			}
			if run != nil {
				if _, e := s.follow(run); e.Code != 0 {
					t.Errorf("got exit %+v", e)
				}
			}
			l := newLocal(t)
			if _, err := l.Start(s.soon(), s.dir, s.shell("echo again >>"+ran)); !isKind(err, supervise.Spent) && !isKind(err, supervise.NotStarted) {
				t.Errorf("it could be started again: %v", err)
			}
			s.wantNobody(nil)
			b, _ := os.ReadFile(ran) // missing: it has not run
			if !slices.Contains(point.ran, string(b)) || found == supervise.Revoked && string(b) != none || run != nil && string(b) != once {
				t.Errorf("it is %s and has left %q", found, b)
			}
		})
	}
}

// awaitDeath returns when the supervisor has reached the step at which it dies, and has died.
func (s *scene) awaitDeath(step string) {
	s.Helper()
	if step == "supervisor before ticket" {
		return // the runtime has seen it: its start has failed
	}
	s.eventually("the supervisor has died", func() bool {
		all, err := newLocal(s).List(s.soon(), s.dir)
		return err == nil && len(all) == 1 && (all[0].Remains == supervise.Gone || all[0].Remains == supervise.Ended)
	})
}
