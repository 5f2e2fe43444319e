package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// written is a task whose log has streams, attempts and times.
type written struct {
	*scene
	chunks []engine.Chunk
}

// writtenTasks implements engine.Tasks for written.
type writtenTasks struct {
	engine.Tasks
	written
}

// Tasks implements engine.Engine.
func (w written) Tasks() engine.Tasks { return writtenTasks{w.scene.Tasks(), w} }

func (w writtenTasks) Log(_ context.Context, _ perdure.TaskID, offset int64, most int) (engine.Log, error) {
	var all []byte
	var log engine.Log
	for _, c := range w.chunks {
		c.Offset = int64(len(all))
		all = append(all, c.Bytes...)
		// a page has two chunks, so that there are several pages
		if c.Offset >= offset && offset >= 0 && len(log.Chunks) < 2 {
			log.Chunks = append(log.Chunks, c)
			log.Next = int64(len(all))
		}
	}
	log.End = int64(len(all))
	if len(log.Chunks) == 0 {
		log.Next = log.End
	}
	return log, nil
}

// TestC06LogChoices checks that each flag selects the right lines.
func TestC06LogChoices(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	chunks := []engine.Chunk{
		{Stream: "stdout", Attempt: 1, At: at(1), Bytes: []byte("one\ntw")},
		{Stream: "stderr", Attempt: 1, At: at(2), Bytes: []byte("oh no\n")},
		{Stream: "stdout", Attempt: 1, At: at(3), Bytes: []byte("o\n")},
		{Stream: "stdout", Attempt: 2, At: at(4), Bytes: []byte("three\r\nfour")},
	}
	for flags, want := range map[string]string{
		"":                                  "one\ntwoh no\no\nthree\r\nfour",
		"--stream err":                      "oh no\n",
		"--stream out":                      "one\ntwo\nthree\r\nfour",
		"--attempt 2":                       "three\r\nfour",
		"--since 2026-01-02T03:03:00Z":      "o\nthree\r\nfour",
		"--until 2026-01-02T03:02:00Z":      "one\ntwoh no\n",
		"--grep ^t":                         "two\nthree\r\n",
		"--grep e$":                         "one\nthree\r\n",
		"--grep ^f":                         "four\n",
		"--tail 2 --grep o":                 "two\nfour\n",
		"--tail 1 --stream out":             "four\n",
		"--tail 2":                          "three\r\nfour",
		"--tail 0":                          "",
		"--tail 0 --stream out":             "",
		"--tail 0 --prefix":                 "",
		"--prefix --stream err":             "task_1 stderr | oh no\n",
		"--timestamps --grep ^tw":           "2026-01-02T03:01:00.000Z two\n",
		"--timestamps --prefix --attempt 2": "2026-01-02T03:04:00.000Z task_1 stdout | three\r\n2026-01-02T03:04:00.000Z task_1 stdout | four\n",
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			ended := &scene{views: [][]perdure.Task{{{ID: "task_1", State: perdure.TaskSucceeded}}}}
			verb := "log"
			if len(flags)%2 == 1 {
				verb = "task log -f" // it ends with the task, so it prints the same
			}
			code, out, talk := command{args: verb + " task_1 " + flags, engine: written{ended, chunks}}.run(t.Context())
			if code != exitOK || out != want {
				t.Errorf("%s: exit code %d, %q, want %q: %s", verb, code, out, want, talk)
			}
		})
	}
	for flags, says := range map[string]string{
		"--since yesterday": "is not a time", "--until=-5m": "is not a time", "--grep (": "--grep: missing closing )", "--stream in": "must be one of", "--tail=-1": "number of lines",
	} {
		code, out, talk := command{args: "log task_1 " + flags, scene: &scene{}}.run(t.Context())
		if code != exitUsage || out != "" || !strings.Contains(talk, says) {
			t.Errorf("%s: exit code %d, %q, %q", flags, code, out, talk)
		}
	}
}
