//go:build soak

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// TestR27BackupsUnderLoad backs up a data directory while a server works in it, restores and
// verifies each backup elsewhere, and continues it with another server: all work ends, the results
// in the backup do not change, and their effects are not repeated. PERDURE_BACKUPS is the number of
// backups.
func TestR27BackupsUnderLoad(t *testing.T) {
	t.Parallel()
	backups := soak.Count(t, "PERDURE_BACKUPS", 3, 20)
	d := newDoorway(t, nil)
	d.start()
	model := d.script(`
rules:
  - when: {last_role: notification}
    text: home
  - when: {last_role: user}
    calls:
      - {name: bash, args: {command: "echo {{user}} >> effects"}}
      - {name: spawn_background, args: {tool: bash, args: {command: "echo later-{{user}} >> effects"}}}
steps:
  - text: done
    repeat: true
`)
	var sessions []perdure.SessionID
	stop := make(chan struct{})
	var talkers sync.WaitGroup
	ended := sync.OnceFunc(func() {
		close(stop)
		talkers.Wait()
	})
	defer ended() // also if the test ends early
	for i := range 4 {
		id := d.begin(model, fmt.Sprintf("begin-%d", i))
		sessions = append(sessions, id)
		talkers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				d.insist(say(id, fmt.Sprintf("say-%d", n), fmt.Sprintf("order-%d-%d", i, n)))
				d.pause(100*time.Millisecond, 600*time.Millisecond)
			}
		})
	}
	settled, slowest := 0, time.Duration(0)
	for n := range backups {
		d.until("work that is done", func() bool { return len(d.written()) > (n+1)*10 })
		took, calls := d.backedUp(sessions)
		settled, slowest = settled+calls, max(slowest, took)
	}
	ended()
	for _, id := range sessions {
		d.rest(id)
	}
	d.stop()

	if settled == 0 {
		t.Error("no backup had a settled call with an effect: nothing was looked at")
	}
	t.Logf("%d backups, %d settled effects in them; the slowest backup took %s", backups, settled, slowest.Round(time.Millisecond))
}

// written counts the lines that commands wrote, on the server and on all continued backups of it.
func (d *doorway) written() map[string]int {
	text, _ := os.ReadFile(filepath.Join(d.work, "effects")) // no file: nothing was written yet
	times := map[string]int{}
	for _, line := range strings.Fields(string(text)) {
		times[line]++
	}
	return times
}

// backedUp makes one backup and continues it elsewhere. It returns how long the backup took and how
// many effects it contained.
func (d *doorway) backedUp(sessions []perdure.SessionID) (took time.Duration, settled int) {
	d.t.Helper()
	folder := filepath.Join(d.t.TempDir(), "copy")
	began := time.Now()
	d.output("admin", "backup", folder)
	took = time.Since(began)
	r := newDoorway(d.t, nil)
	r.output("admin", "restore", folder)
	r.output("admin", "verify", folder)
	r.output("admin", "verify")
	before := settledCalls(d.t, r.data)
	happened := d.written() // settled effects must not be repeated, here or there
	effects := map[string]bool{}
	for _, call := range before {
		var args struct {
			Command string `json:"command"`
		}
		if err := json.Unmarshal(call.Args, &args); err == nil && call.Tool == "bash" {
			effects[strings.Fields(args.Command)[1]] = true
		}
	}

	r.start()
	for _, id := range sessions {
		r.rest(id)
	}
	r.stop()

	r.output("admin", "verify")
	after := settledCalls(d.t, r.data)
	for key, call := range before {
		if diff := cmp.Diff(call, after[key]); diff != "" {
			d.t.Errorf("a call that was settled in the backup (-then +now):\n%s", diff)
		}
	}
	for line, times := range d.written() {
		if effects[line] && (happened[line] < 1 || times != happened[line]) {
			d.t.Errorf("%s happened %d times before the backup was gone on with, and %d times after it: it was settled", line, happened[line], times)
		}
	}
	return took, len(effects)
}

// settledCalls reads the calls of a data directory that have results.
func settledCalls(t *testing.T, dir string) map[perdure.CallKey]perdure.Call {
	t.Helper()
	st, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	found := map[perdure.CallKey]perdure.Call{}
	err = st.View(context.Background(), func(r store.Reader) error {
		calls, err := r.Calls().List(store.CallFilter{State: perdure.CallSettled})
		for _, call := range calls {
			found[call.Key] = call
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
