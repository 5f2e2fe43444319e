//go:build unix

package chaos

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// told is a Teller that counts its calls.
type told struct{ up, down int }

func (t *told) Up(int, time.Duration) { t.up++ }
func (t *told) Down(int, int)         { t.down++ }

func TestLoop(t *testing.T) {
	t.Parallel()
	story := &told{}
	loop := Loop{Kills: 3, Seed: 7, MaxLife: 5 * time.Millisecond, Observer: story, Command: func(last bool) *exec.Cmd {
		if last {
			return exec.Command("sh", "-c", "echo moving")
		}
		return exec.Command("sh", "-c", "echo moving; exec sleep 60")
	}}

	run, err := loop.Run(t.Context())

	if err != nil || len(run.Recoveries) != 4 || story.up != 4 || story.down != 3 || run.Kills != 3 || run.Seed != 7 {
		t.Errorf("got %+v, %+v, %v", run, story, err)
	}
}

func TestLoopNoticesWhatDiesByItself(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 3":              "sign of life",
		"echo moving; exit 3": "exited early: exit status 3",
	} {
		loop := Loop{Kills: 1, MinLife: 10 * time.Second, MaxLife: 10 * time.Second, Observer: &told{}, Command: func(bool) *exec.Cmd {
			return exec.Command("sh", "-c", script)
		}}
		if _, err := loop.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", script, err, want)
		}
	}
}
