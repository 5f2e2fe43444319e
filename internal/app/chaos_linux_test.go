//go:build soak

package app

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/soak"
)

// chaosRun runs "perdure chaos" to its end and returns its verdict, its exit code and its stderr.
func chaosRun(t *testing.T, args ...string) (r chaos.Report, code int, talk string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "chaos")
	t.Cleanup(func() { killCommands(filepath.Join(dir, "data")) })
	cmd := exec.CommandContext(t.Context(), "perdure", append([]string{"chaos", "-o", "json", "--dir", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	code = cmd.ProcessState.ExitCode()
	if err := json.Unmarshal(out, &r); err != nil {
		words, _ := os.ReadFile(filepath.Join(dir, "server.log"))
		t.Fatalf("exit code %d, %v\n%s%s\nthe server:\n%s", code, err, out, said.String(), words)
	}
	if _, err := os.Stat(dir); (err == nil) != (code != 0) {
		t.Errorf("exit code %d, and its data: %v; it is kept when something broke, and else removed", code, err)
	}
	return r, code, said.String()
}

// TestR01RandomKill kills the server at random moments while sessions are running, and finds
// nothing lost, repeated or stuck. More kills: perdure chaos --kills 1000.
func TestR01RandomKill(t *testing.T) {
	t.Parallel()
	kills := strconv.Itoa(soak.Count(t, "PERDURE_KILLS", 12, 200))

	r, code, talk := chaosRun(t, "--kills", kills, "--sessions", "8", "--seed", "1")

	if code != 0 || !r.OK {
		t.Errorf("exit code %d: %+v\n%s", code, r.Violations, talk)
	}
	if r.Tasks == 0 || r.Effects == 0 || r.Answers == 0 || r.Settled == 0 || r.Recoveries == 0 || r.Kinds["pure"]*r.Kinds["idempotent"]*r.Kinds["at_most_once"] == 0 {
		t.Errorf("nothing was at stake: %+v", r)
	}
	t.Logf("%d kills, %d SIGSTOP, %d SIGTERM: %d tasks, %d effects, %d unknown, %d adopted, %d resumed; recovery p50 %d ms, p99 %d ms, n = %d",
		r.Kills, r.Stops, r.Terms, r.Tasks, r.Effects, r.Unknown, r.Adopted, r.Resumed, r.RecoveryMS.P50, r.RecoveryMS.P99, r.Recoveries)
}

// TestR01RandomKillPostgres is the same on Postgres, with pauses beyond the lease: a lost worker is
// replaced in the same process (LG20). More: perdure chaos --kills 200 --store postgres.
func TestR01RandomKillPostgres(t *testing.T) {
	t.Parallel()
	r, code, talk := chaosRun(t, "--kills", "6", "--sessions", "4", "--seed", "2", "--faults", "kill,stop,term", "--store", "postgres")

	if code != 0 || !r.OK {
		t.Errorf("exit code %d: %+v\n%s", code, r.Violations, talk)
	}
	if r.Tasks == 0 || r.Effects == 0 || r.Settled == 0 || r.Recoveries == 0 {
		t.Errorf("nothing was at stake: %+v", r)
	}
}

// TestR12SeveralPostgres repeatedly pauses one of two servers beyond its lease while the other one
// on the same database takes over its sessions; then the first one continues. PAUSES is the number
// of pauses.
func TestR12SeveralPostgres(t *testing.T) {
	t.Parallel()
	r, code, talk := chaosRun(t, "--kills", strconv.Itoa(soak.Count(t, "PAUSES", 5, 100)), "--sessions", "4", "--seed", "3", "--faults", "stop", "--store", "postgres", "--workers", "2")

	if code != 0 || !r.OK {
		t.Errorf("exit code %d: %+v\n%s", code, r.Violations, talk)
	}
	if r.Stops == 0 || r.Effects == 0 || r.Settled == 0 {
		t.Errorf("nothing was at stake: %+v", r)
	}
}

// TestChaosCanFail runs a server that violates its guarantees, in three ways. A check that finds
// nothing there would prove nothing elsewhere.
func TestChaosCanFail(t *testing.T) {
	t.Parallel()
	for word, broken := range map[string]func(chaos.Report) int{
		sabotageClaim:   func(r chaos.Report) int { return r.DuplicateEffects },
		sabotageSettle:  func(r chaos.Report) int { return r.LostSettled },
		sabotageDeliver: func(r chaos.Report) int { return r.Undelivered },
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			r, code, talk := chaosRun(t, "--kills", "6", "--sessions", "6", "--seed", "1", "--faults", "kill", "--sabotage", word)
			for n := 0; code <= 1 && broken(r) == 0 && n < 5; n++ { // a few kills may hit nothing, or something else
				r, code, talk = chaosRun(t, "--kills", "6", "--sessions", "6", "--seed", "1", "--faults", "kill", "--sabotage", word)
			}
			if code != 1 || r.OK || broken(r) == 0 || len(r.Violations) == 0 || r.UpperBound95 != 0 {
				t.Errorf("exit code %d: %+v\n%s", code, r, talk)
			}
			if !strings.Contains(talk, "perdure chaos --kills 6 --sessions 6 --seed 1 --faults kill --sabotage "+word) || !strings.Contains(talk, "kept in") {
				t.Errorf("it does not say how to do it again:\n%s", talk)
			}
		})
	}
}

// TestChaosForOthers runs a foreign server with tools that do not write to the ledger: a command
// lists the effects.
func TestChaosForOthers(t *testing.T) {
	t.Parallel()
	listed := `printf 'call_a key_1\ncall_a key_1\n'`

	r, code, talk := chaosRun(t, "--kills", "2", "--sessions", "2", "--seed", "3", "--faults", "kill", "--tools", "add,write_file", "--effects-from", listed, "--", "perdure", "serve")

	if code != 0 || !r.OK || r.Effects != 2 || r.Answers == 0 || r.Kinds["pure"] == 0 || r.Kinds["idempotent"] == 0 {
		t.Errorf("exit code %d: %+v\n%s", code, r, talk)
	}
}
