package local_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/file"
)

// places are the file stores of a session.
var places = map[string]func(t *testing.T) (store.Store, func(perdure.SessionID) (model, runtime tool.Files)){
	"memory": func(*testing.T) (store.Store, func(perdure.SessionID) (model, runtime tool.Files)) {
		return memory.New(memory.Config{}), nil
	},
	"sqlite": func(t *testing.T) (store.Store, func(perdure.SessionID) (model, runtime tool.Files)) {
		st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st, nil
	},
	"the host's own view of the store": func(*testing.T) (store.Store, func(perdure.SessionID) (model, runtime tool.Files)) {
		st := memory.New(memory.Config{})
		return st, func(id perdure.SessionID) (model, runtime tool.Files) {
			return sessionfile.New(st, id, false), sessionfile.New(st, id, true)
		}
	},
	"folder": func(t *testing.T) (store.Store, func(perdure.SessionID) (model, runtime tool.Files)) {
		dir, err := file.OpenDir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dir.Close() })
		return memory.New(memory.Config{}), func(perdure.SessionID) (model, runtime tool.Files) { return dir, dir.Runtime() }
	},
}

// TestFileWritten: each change that a tool makes to the session's files is in the journal under the
// call, and so are the files that the runtime writes for a run and for a long result. It starts no
// turn, and the journal folds (FI9).
func TestFileWritten(t *testing.T) {
	t.Parallel()
	for name, open := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, files := open(t)
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			scribe := tool.NewBackground(tool.Spec{Name: "scribe", Description: "Writes.", Class: perdure.Idempotent}, scribble)
			eng, err := local.Open(ctx, local.Config{
				Store: st, Ports: local.Ports{Files: files}, Timing: local.Timing{Drain: -1},
				Tools: tool.NewRegistry(append(background.Tools(background.Config{}), scribe)...),
				Model: parsed(t, `
rules:
  - {when: {notifications: 1}, text: heard of it}
steps:
  - calls: [{id: call_1, name: scribe, args: {text: a}}]
  - calls: [{id: call_2, name: scribe, args: {text: long}}]
  - calls: [{id: call_3, name: spawn_background, args: {tool: scribe, args: {text: b}}}]
  - {text: done, repeat: true}
`),
			})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1) // one result
			go func() { ended <- eng.Run(ctx) }()
			s, err := eng.Sessions().Create(ctx, perdure.Agent{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = eng.Send(ctx, s.ID, perdure.Text("go"))
			if err := errors.Join(err, eng.Sessions().WaitIdle(ctx, s.ID)); err != nil {
				t.Fatal(err)
			}

			tasks, err := eng.Tasks().List(ctx, s.ID)
			if err != nil || len(tasks) != 1 || tasks[0].State != perdure.TaskSucceeded {
				t.Fatalf("%+v, %v", tasks, err)
			}
			task, run := tasks[0].ID, tasks[0].ArtifactDir()
			events, err := eng.Events(ctx, s.ID, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			told, turns := toldFiles(t, events, task)
			want := map[string][]string{
				"call_1": {"wrote /a/note.txt", "made /a/sub", "removed /a/note.txt"},
				"call_2": {"wrote /long/note.txt", "made /long/sub", "removed /long/note.txt", "wrote " + tool.OutputPath("call_2")},
				"task": {
					"wrote " + run + "/meta.json", "emptied " + run + "/output.log", "wrote " + run + "/result.json",
					"wrote /b/note.txt", "made /b/sub", "removed /b/note.txt",
				},
			}
			slices.Sort(want["task"])
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if turns > 2 { // the message, and the delivery if the turn had ended before it
				t.Errorf("%d turns", turns)
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// how is the change of a file.
func how(f perdure.FileWritten) string {
	switch {
	case f.Removed:
		return "removed "
	case f.Directory:
		return "made "
	case f.SizeBytes == 0:
		return "emptied "
	}
	return "wrote "
}

// scribble changes files of the session: some changes change nothing, and one is refused.
func scribble(ctx context.Context, in words, env tool.Env) (answer, error) {
	dir := "/" + in.Text
	_, err1 := env.Files.Write(ctx, tool.FileWrite{Path: dir + "/note.txt", Content: []byte("12345")})
	_, err2 := env.Files.MakeDirectory(ctx, dir+"/sub")
	_, err3 := env.Files.MakeDirectory(ctx, dir+"/sub")
	_, err4 := env.Files.Remove(ctx, dir+"/note.txt", false)
	_, err5 := env.Files.Remove(ctx, dir+"/note.txt", false)
	err := errors.Join(err1, err2, err3, err4, err5)
	if _, bad := env.Files.Write(ctx, tool.FileWrite{Path: dir + "/sub"}); bad == nil {
		err = errors.New("a directory was written to")
	}
	return answer{"long": strings.Repeat("x", len(in.Text)/4*100_000)}, err
}

// toldFiles folds a journal, and returns its file events, by call or task, and the number of turns.
func toldFiles(t *testing.T, events []perdure.Event, task perdure.TaskID) (told map[string][]string, turns int) {
	t.Helper()
	fold := perdure.NewSession(events[0].Session)
	told = map[string][]string{}
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			t.Fatal(err)
		}
		switch f := e.Fact.(type) {
		case perdure.TurnStarted:
			turns++
		case perdure.FileWritten:
			by := string(e.Call)
			if e.Task != "" {
				by = "task"
				if e.Task != task || e.Attempt != 1 {
					t.Errorf("recorded as %+v", e)
				}
			}
			told[by] = append(told[by], how(f)+f.Path)
		}
	}
	slices.Sort(told["task"])
	return told, turns
}
