//go:build soak

package app

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/soak"
)

// diskSize is the size of the disk that becomes full.
const diskSize = "48m"

// TestR07DiskFull fills a small disk at random moments under load and frees it again. While it is
// full, writes get 507 and reads work as usual; no process exits; and with space again everything
// continues, with everything that was acknowledged. PERDURE_FULL_DISKS is the number of cycles.
func TestR07DiskFull(t *testing.T) {
	t.Parallel()
	cycles, seed := soak.Count(t, "PERDURE_FULL_DISKS", 10, 200), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 7))
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize); err != nil {
		t.Skipf("R7: a small file system needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	program, err := release()
	if err != nil {
		t.Fatal(err)
	}
	m := newMachineIn(t, program, filepath.Join(dir, "data"))
	m.charge = 5
	model := m.worker()
	if !m.start() {
		t.Fatal("the server does not serve")
	}
	first, _, err := m.begin(model, "first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.say(first, "write-first"); err != nil {
		t.Fatal(err)
	}

	var over atomic.Bool
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		for round := 0; !over.Load(); round++ {
			m.clients(2, model, fmt.Sprintf("round%d-", round), func(turn int) bool { return turn == 5 || over.Load() })
		}
	}()
	var slowestHeal, slowestRefusal time.Duration
	for cycle := range cycles {
		pauseFor(t, time.Duration(dice.IntN(200))*time.Millisecond)
		free := fillDisk(t, dir)
		slowestRefusal = max(slowestRefusal, m.refuses(first, cycle))
		if _, err := m.journal(first); err != nil {
			t.Errorf("a read on a full disk: %v", err)
		}
		r, err := m.ask(http.MethodPost, "/v1/sessions/"+string(first)+"/interrupt", fmt.Sprint("interrupt", cycle), `{}`)
		if err != nil || r.status >= 400 {
			t.Errorf("an interrupt on a full disk, for which there is a reserve: %d %s, %v", r.status, r.body, err)
		}
		r, err = m.ask(http.MethodGet, "/v1/sessions/"+string(first)+"/export", "", "")
		if err != nil || r.status != http.StatusOK || !strings.Contains(r.body, "perdure-session") {
			t.Errorf("an export on a full disk: %d %.80s, %v", r.status, r.body, err)
		}
		pauseFor(t, time.Duration(dice.IntN(100))*time.Millisecond)
		free()
		slowestHeal = max(slowestHeal, m.heals(first, cycle))
	}
	over.Store(true)
	<-worked

	select {
	case <-m.ended:
		t.Fatalf("the server ended: %v", m.server.ProcessState)
	default:
	}
	record := m.kept()
	m.stop()
	if text, err := integrity(t.Context(), filepath.Join(m.data, "perdure.db")); text != "ok" || err != nil {
		t.Errorf("integrity: %s, %v", text, err)
	}
	if m.told.refused < cycles || len(m.told.problems) > 0 {
		t.Errorf("%d answers 507 in %d cycles; problems that are none: %q", m.told.refused, cycles, m.told.problems)
	}
	t.Logf("%d cycles: %d messages acknowledged in %d sessions, %d effects, %d answers 507 (the slowest took %s), working again after at most %s; slowest answers %v",
		cycles, len(m.told.messages), len(record.Journals), len(record.Ledger), m.told.refused, slowestRefusal.Round(time.Millisecond),
		slowestHeal.Round(time.Millisecond), m.told.slowest)
}

// refuses sends large messages until one finds no space, and returns how long the refusal took.
// Messages that fit into the log are acknowledged.
func (m *machine) refuses(id perdure.SessionID, cycle int) time.Duration {
	m.t.Helper()
	for n := range 1000 {
		began := time.Now()
		r, err := m.say(id, fmt.Sprintf("stuff-%d-%d_%s", cycle, n, strings.Repeat("x", 20_000)))
		if err != nil {
			m.t.Fatalf("a write on a full disk: %v", err)
		}
		if r.status == http.StatusInsufficientStorage {
			return time.Since(began)
		}
		if r.status != http.StatusAccepted {
			m.t.Fatalf("a write on a full disk: %d %s", r.status, r.body)
		}
	}
	m.t.Fatal("20 MB found room on a full disk")
	return 0
}

// heals sends a message until it is accepted, and returns how long that took.
func (m *machine) heals(id perdure.SessionID, cycle int) time.Duration {
	m.t.Helper()
	last := ""
	for began := time.Now(); time.Since(began) < waitTime; pauseFor(m.t, 10*time.Millisecond) {
		r, err := m.say(id, fmt.Sprintf("write-healed%d", cycle))
		if err != nil {
			m.t.Fatalf("a write with space again: %v", err)
		}
		if r.status == http.StatusAccepted {
			return time.Since(began)
		}
		last = fmt.Sprint(r.status, r.body)
	}
	free, err := freeBytes(m.data)
	m.t.Fatalf("nothing can be written %s after there is space again (%d bytes, %v): %s", waitTime, free, err, last)
	return 0
}

// fillDisk fills a file system; the returned function frees the space.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size >= 4096; size /= 16 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// pauseFor waits, or until the test ends.
func pauseFor(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
