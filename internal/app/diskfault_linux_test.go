//go:build soak

package app

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/soak"
)

// faultTime is how long clients write before a fault counts as missing: a checkpoint comes after a
// thousand pages of the log, which takes a while on a busy machine.
const faultTime = 5 * time.Minute

// injection is one fault of a system call: the error that the nth call of each thread gets.
type injection struct {
	call  string
	errno string
	n     int
	// database: only for system calls on the database file, whose first sync after a start is that
	// of a checkpoint.
	database bool
}

func (i injection) String() string {
	if i.database {
		return fmt.Sprintf("checkpoint %s %s %d", i.call, i.errno, i.n)
	}
	return fmt.Sprintf("%s %s %d", i.call, i.errno, i.n)
}

// strace is the command that injects the fault into system calls on the database and its log, and
// logs them.
func (i injection) strace(m *machine, log string) []string {
	paths := []string{"-P", filepath.Join(m.data, "perdure.db")}
	if !i.database {
		paths = append(paths, "-P", filepath.Join(m.data, "perdure.db-wal"))
	}
	return append([]string{
		"strace", "-f", "-q", "--seccomp-bpf", "-y", "-ttt", "-s", "0", "-e", "signal=none", "-o", log,
		"-e", "trace=" + faultCalls, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", i.call, i.errno, i.n),
	}, paths...)
}

// faultCalls are the system calls that change a database, and those that make it durable.
const faultCalls = "fsync,fdatasync,pwrite64,ftruncate,?unlink,unlinkat"

// trail is the log of strace of a process with a fault.
type trail struct {
	at     int           // the number of the failed call of that kind, over all threads; 0: none
	after  []string      // retryAt calls that change the database or make it durable
	when   time.Time     // the moment of the fault
	took   time.Duration // from the fault to the end of the process
	exited bool          // the log has the end
}

// trailOf reads the log of strace.
func trailOf(t *testing.T, path string, i injection) trail {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var found trail
	var fault, last float64
	calls := 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 {
			continue
		}
		at, _ := strconv.ParseFloat(fields[1], 64) // strace wrote the number
		text := strings.Join(fields[2:], " ")
		switch {
		case strings.HasPrefix(text, "+++ exited"):
			last, found.exited = at, true
			continue
		case strings.HasPrefix(text, "<...") || strings.HasPrefix(text, "+++") || strings.HasPrefix(text, "---"):
			continue
		case strings.HasPrefix(text, i.call+"("):
			calls++
		}
		switch {
		case strings.HasSuffix(text, "(INJECTED)") && found.at == 0:
			fault, found.at, found.when = at, calls, time.UnixMicro(int64(at*1e6))
		case found.at > 0 && !strings.HasSuffix(text, "(INJECTED)"):
			found.after = append(found.after, text)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	found.took = time.Duration((last - fault) * float64(time.Second))
	return found
}

// TestR06DiskFaults lets the nth write or sync of the database fail, under load, in the release
// build. After that nothing is acknowledged and no file is changed; the program exits with 74; and
// the next start is a normal one that has everything that was acknowledged. PERDURE_DISK_FAULTS is
// the number of faults of each kind.
func TestR06DiskFaults(t *testing.T) {
	t.Parallel()
	needTracing(t, "R6")
	few := soak.Count(t, "PERDURE_DISK_FAULTS", 1, 50)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 6))
	var faults []injection
	for i := range few {
		// Each part of the range has one fault, at a random position. There are many more writes
		// than syncs.
		faults = append(faults, injection{"fsync", "EIO", 1 + i*50/few + dice.IntN(max(50/few, 1)), false})
		faults = append(faults, injection{"pwrite64", "EIO", 1 + i*600/few + dice.IntN(max(600/few, 1)), false})
	}
	faults = append(faults, injection{"fsync", "EIO", 1, true}, injection{"pwrite64", "EIO", 3, true})
	var mu sync.Mutex
	var took []time.Duration // guarded by mu
	var told, acknowledged int
	t.Run("stop", func(t *testing.T) {
		for _, i := range faults {
			t.Run(i.String(), func(t *testing.T) {
				t.Parallel()
				found, refused, kept := fail(t, i)
				mu.Lock()
				defer mu.Unlock()
				took, told, acknowledged = append(took, found), told+refused, acknowledged+kept
			})
		}
	})
	if t.Failed() {
		return
	}
	slices.Sort(took)
	t.Logf("%d faults; from the fault to the end of the process: median %s, at most %s; %d acknowledged messages were there, %d answers were 507",
		len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), acknowledged, told)
}

// fail injects one fault and restarts.
func fail(t *testing.T, i injection) (took time.Duration, refused, acknowledged int) {
	m := newMachine(t)
	m.charge = 3
	model, log := m.worker(), filepath.Join(t.TempDir(), "trace")
	if i.database {
		m.start()
		m.stop()
	}
	served, began := m.start(i.strace(m, log)...), time.Now()
	if served {
		m.clients(2, model, "before-", func(int) bool { return time.Since(began) > faultTime })
	}
	if code := m.exits(); code != 74 {
		t.Errorf("exit code %d, want 74", code)
	}
	found := trailOf(t, log, i)
	// cut off by the end: strace did not see which call
	found.after = slices.DeleteFunc(found.after, func(call string) bool { return strings.HasPrefix(call, "???") })
	if found.at == 0 || !found.exited {
		t.Errorf("the fault did not come, or the end was not noted: %+v", found)
	}
	if served && found.when.After(began) && len(found.after) > 0 { // earlier, SQLite rolls back
		t.Errorf("after the fault, which was the %dth %s, this was done: %q", found.at, i.call, found.after[:min(5, len(found.after))])
	}
	if len(m.told.late) > 0 || len(m.told.problems) > 0 {
		t.Errorf("acknowledged after an error: %q; problems that are none: %q", m.told.late, m.told.problems)
	}
	acknowledged, refused = len(m.told.messages), m.told.refused
	m.told.refused = 0 // acknowledgements are allowed from now on

	if !m.start() {
		t.Fatal("it does not start again")
	}
	m.clients(1, model, "after-", func(turn int) bool { return turn == 2 })
	m.kept()
	m.stop()
	if text, err := integrity(t.Context(), filepath.Join(m.data, "perdure.db")); text != "ok" || err != nil {
		t.Errorf("integrity: %s, %v", text, err)
	}
	t.Logf("the %dth %s; %d messages acknowledged before, %d answers 507; ended after %s", found.at, i.call, acknowledged, refused, found.took.Round(time.Millisecond))
	return found.took, refused, acknowledged
}

// TestR06NoSpace lets one write of the database fail for lack of space, in a commit or in a
// checkpoint. Nothing of that transaction is kept, the client gets an error, and the server
// continues.
func TestR06NoSpace(t *testing.T) {
	t.Parallel()
	needTracing(t, "R6")
	for _, n := range []int{100, 150, 200} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			i := injection{"pwrite64", "ENOSPC", n, false}
			m := newMachine(t)
			m.charge = 3
			model, log := m.worker(), filepath.Join(t.TempDir(), "trace")
			if !m.start() { // the schema exists, so that the writes are those of commits
				t.Fatal("the server does not serve")
			}
			m.stop()
			if !m.start(i.strace(m, log)...) {
				t.Fatal("the server does not serve")
			}
			m.clients(2, model, "full-", func(turn int) bool { return turn == 25 })
			m.kept()
			m.stop()

			found := trailOf(t, log, i)
			if found.at == 0 {
				t.Error("the fault did not come")
			}
			if len(m.told.problems) > 0 {
				t.Errorf("problems that are none: %q", m.told.problems)
			}
			if text, err := integrity(t.Context(), filepath.Join(m.data, "perdure.db")); text != "ok" || err != nil {
				t.Errorf("integrity: %s, %v", text, err)
			}
			t.Logf("the %dth write; %d answers 507, %d messages acknowledged", found.at, m.told.refused, len(m.told.messages))
		})
	}
}

// TestR08SlowDisk makes each sync take a fifth of a second under load: no process is declared dead,
// nothing happens twice, and reads do not wait for the writes.
func TestR08SlowDisk(t *testing.T) {
	t.Parallel()
	needTracing(t, "R8")
	m := newMachine(t)
	m.charge = 2
	model := m.worker()
	const delay = "fsync,fdatasync:delay_enter=200000" // microseconds
	if !m.start("strace", "-f", "-qq", "--seccomp-bpf", "-o", os.DevNull, "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-e", "inject="+delay) {
		t.Fatal("the server does not serve")
	}

	m.clients(4, model, "slow-", func(turn int) bool { return turn == 3 })
	record := m.kept()
	for _, j := range record.Journals {
		for _, e := range j.Events {
			switch e.Fact.EventType() {
			case "tool.taken_over", "tool.unknown", "task.reattached", "turn.interrupt_requested", "turn.failed", "turn.sealed":
				t.Errorf("a slow disk was taken for a dead owner: %s of %s", e.Fact.EventType(), j.Session)
			}
		}
	}
	m.stop()

	charges := len(record.Ledger)
	if charges == 0 || len(record.Journals) != 12 {
		t.Errorf("%d effects, %d sessions, want some and 12", charges, len(record.Journals))
	}
	t.Logf("%d sessions, %d effects; the slowest answers: %v", len(record.Journals), charges, m.told.slowest)
}
