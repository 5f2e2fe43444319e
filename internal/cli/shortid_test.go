package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestShortIDs checks that the printed prefixes of ids in a list are unique, even for ids of the
// same millisecond, and find their objects.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	var ids []string
	var all []candidate
	for i := range 1000 {
		id := string(perdure.DeriveID[perdure.TaskID](perdure.Secret{1}, at, fmt.Sprint(i)))
		ids, all = append(ids, id), append(all, candidate{id: id})
	}
	ids = append(ids, "session_1/call_1", "appr_0")

	short := shortIDs(ids)

	for i, id := range ids[:1000] {
		found, err := kind{noun: "task"}.choose(short[i], all)
		if err != nil || found != id {
			t.Fatalf("%s is printed as %s, which finds %q, %v", id, short[i], found, err)
		}
		if n := len(short[i]); n < len("task_")+uniqueDigits || n > len("task_")+uniqueDigits+8 {
			t.Errorf("%s has %d characters", short[i], n)
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(short))); len(unique) != len(ids) {
		t.Errorf("%d texts for %d ids", len(unique), len(ids))
	}
	if got := short[1000:]; !slices.Equal(got, ids[1000:]) {
		t.Errorf("got %q for what is no id of 32 digits", got)
	}
}

// TestPSIDs checks that ps prints full ids to a pipe, and on a terminal prefixes that find their
// objects.
func TestPSIDs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	o := office{scene: &scene{}}
	var tasks []perdure.Task
	var all []candidate
	for i := range 20 {
		id := perdure.DeriveID[perdure.TaskID](perdure.Secret{1}, at, fmt.Sprint(i))
		tasks = append(tasks, perdure.Task{ID: id, State: perdure.TaskRunning, Tool: "bash", CreatedAt: at})
		all = append(all, candidate{id: string(id)})
	}
	o.views = [][]perdure.Task{tasks}
	for _, terminal := range []bool{true, false} {
		code, out, talk := command{args: "ps", engine: o, terminal: Terminal{Stdout: terminal}, env: map[string]string{"NO_COLOR": "1"}}.run(t.Context())
		if code != exitOK {
			t.Fatal(talk)
		}
		var found []string
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); strings.HasPrefix(fields[0], "task_") {
				id, err := kind{noun: "task"}.choose(fields[0], all)
				if err != nil {
					t.Errorf("terminal %t: %s: %v", terminal, fields[0], err)
				}
				if whole := id == fields[0]; whole == terminal {
					t.Errorf("terminal %t: %s is printed", terminal, fields[0])
				}
				found = append(found, id)
			}
		}
		if slices.Sort(found); len(slices.Compact(found)) != len(tasks) {
			t.Errorf("terminal %t: %d tasks are found, want %d:\n%s", terminal, len(found), len(tasks), out)
		}
	}
}

// emptyOffice is an office without a server.
type emptyOffice struct{ office }

func (emptyOffice) Attended(context.Context) bool { return false }

// TestNobodyWorks checks that unfinished work is always shown with the note that it waits for a
// server, and how to start one.
func TestNobodyWorks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		data bool // the output is data, too
	}{{"ps", true}, {"task list", false}, {"session list", false}} {
		code, out, talk := command{args: "--data /d " + c.args, engine: emptyOffice{busyOffice("word ")}}.run(t.Context())
		if code != exitOK || !strings.Contains(talk, "no server is running: unfinished work waits for one") || !strings.Contains(talk, "perdure serve --data /d") {
			t.Errorf("%s: exit code %d, %s", c.args, code, talk)
		}
		if c.data && (!strings.Contains(out, "Waiting for a server (2)") || strings.Contains(out, "Working") || strings.Contains(out, " running ")) {
			t.Errorf("%s: %s", c.args, out)
		}
		if _, _, talk := (command{args: c.args, engine: busyOffice("word ")}).run(t.Context()); strings.Contains(talk, "no server") {
			t.Errorf("%s: where somebody works it says %s", c.args, talk)
		}
	}
	if _, out, _ := (command{args: "ps --prompt", engine: emptyOffice{busyOffice("word ")}}).run(t.Context()); !strings.HasPrefix(out, "2 waiting for a server · ") {
		t.Errorf("the prompt has %s", out)
	}
	if _, out, _ := (command{args: "ps -o json", engine: emptyOffice{busyOffice("word ")}}).run(t.Context()); strings.Count(out, `"waits_for_server": true`) != 3 {
		t.Errorf("JSON has %s", out)
	}
}
