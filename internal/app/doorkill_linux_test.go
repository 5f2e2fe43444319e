//go:build soak

package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/soak"
)

// TestR20FollowersSurviveKills kills the server repeatedly while other processes follow a log and a
// journal: over the socket, over TCP, and in the data directory, which means the socket while a
// server runs, otherwise the store. Their output is the log, and the journal, byte for byte.
func TestR20FollowersSurviveKills(t *testing.T) {
	t.Parallel()
	kills := soak.Count(t, "PERDURE_FOLLOWER_KILLS", 20, 200)
	d := newDoorway(t, nil)
	d.start()
	id := d.begin(d.script(`
rules:
  - when: {last_role: notification}
    text: home
  - when: {not_called: spawn_background}
    calls:
      - name: spawn_background
        args:
          tool: bash
          args: {command: 'i=0; until test -e stop; do i=$((i+1)); echo "line $i"; echo "more of $i"; sleep 0.02; done'}
steps:
  - text: it runs
    repeat: true
`), "begin")
	d.insist(say(id, "go", "go"))
	task := d.taskOf(id)

	log := []string{"task", "log", "-f", string(task)}
	tail := []string{"event", "tail", string(id), "-o", "jsonl", "--after", "0"}
	socket, tcp := []string{"--server", "unix://" + filepath.Join(d.data, socketFile)}, []string{"--server", d.url}
	var logs, tails []*follower
	follow := func(way string, flags ...string) {
		both := []*follower{d.follow("log "+way, slices.Concat(flags, log)...), d.follow("tail "+way, slices.Concat(flags, tail)...)}
		for _, f := range both {
			d.until(f.name+" begins", func() bool { return f.printed() != "" })
		}
		logs, tails = append(logs, both[0]), append(tails, both[1])
	}
	follow("over the socket", socket...)
	follow("over TCP", tcp...)
	follow("in the directory", "--verbose")
	said := d.chatter(id, 2*kills)
	for i := range kills {
		d.pause(0, 400*time.Millisecond)
		d.kill()
		if i == kills/2 {
			follow("in the directory, begun in the store", "--verbose")
		}
		d.start()
	}
	<-said
	if err := os.WriteFile(filepath.Join(d.work, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, f := range logs {
		f.ends(0)
	}
	d.rest(id)
	whole := d.output("task", "log", string(task))
	lines := unbroken(t, whole)
	for _, f := range logs {
		differ(t, f.name, f.printed(), whole)
	}
	asked := d.output(append(socket, "event", "list", string(id), "-o", "jsonl")...)
	events := strings.Count(asked, "\n")
	gapless(t, asked)
	for _, f := range tails {
		d.until(f.name+" has the end", func() bool { return strings.Count(f.printed(), "\n") >= events })
		if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		f.ends(130)
	}
	for _, f := range tails {
		differ(t, f.name, fences.ReplaceAllString(f.printed(), ""), asked)
	}
	bothAsked(t, slices.Concat(logs[2:], tails[2:]))
	t.Logf("%d kills, %d lines, %d events, %d followers; the slowest start took %s", kills, lines, events, len(logs)+len(tails), d.slowest)
}

// fences matches the fields of task events that only the store shows, not a server.
var fences = regexp.MustCompile(`"worker_id":"[^"]*",`)

// bothAsked checks that at least one follower used the server, and one the store: which of them a
// follower uses depends on timing.
func bothAsked(t *testing.T, followers []*follower) {
	t.Helper()
	for _, text := range []string{"using the server of the data directory", "reading the store"} {
		if !slices.ContainsFunc(followers, func(f *follower) bool { return f.said(text) }) {
			t.Errorf("no follower said %q", text)
		}
	}
}

// said reports whether its output contains a text.
func (f *follower) said(text string) bool {
	f.d.t.Helper()
	said, err := os.ReadFile(f.talk.Name())
	if err != nil {
		f.d.t.Error(err)
	}
	return strings.Contains(string(said), text)
}

// chatter sends n messages, now and then, even while no server runs. The channel is closed after
// the last.
func (d *doorway) chatter(id perdure.SessionID, n int) <-chan struct{} {
	said := make(chan struct{})
	go func() {
		defer close(said)
		for i := range n {
			if r, _ := d.insist(say(id, fmt.Sprintf("say-%d", i), fmt.Sprintf("message %d", i))); r.status != http.StatusAccepted {
				d.t.Errorf("message %d: %d %s", i, r.status, r.body)
			}
			d.pause(0, 200*time.Millisecond)
		}
	}()
	return said
}

// unbroken checks that a log has no gaps and no duplicates, and returns the number of its lines.
func unbroken(t *testing.T, whole string) int {
	t.Helper()
	lines := strings.SplitAfter(whole, "\n")
	for i := range len(lines) / 2 {
		if lines[2*i] != fmt.Sprintf("line %d\n", i+1) || lines[2*i+1] != fmt.Sprintf("more of %d\n", i+1) {
			t.Fatalf("the log has a hole or a repetition at %d: %q", i, lines[2*i:2*i+2])
		}
	}
	return len(lines) - 1
}

// gapless checks that a journal has no gaps and no duplicates.
func gapless(t *testing.T, journal string) {
	t.Helper()
	events := strings.Count(journal, "\n")
	for i, line := range strings.SplitAfter(journal, "\n")[:events] {
		if e, err := perdure.DecodeEvent([]byte(strings.TrimSuffix(line, "\n"))); err != nil || e.Seq != int64(i+1) {
			t.Fatalf("event %d is %d, %v", i+1, e.Seq, err)
		}
	}
}

// differ shows where two texts begin to differ.
func differ(t *testing.T, name, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	around := func(s string) string { return s[max(at-80, 0):min(at+160, len(s))] }
	t.Errorf("%s: %d bytes, want %d; they differ at %d:\n%s\nwant\n%s", name, len(got), len(want), at, around(got), around(want))
}
