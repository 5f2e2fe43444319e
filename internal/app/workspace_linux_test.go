package app

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// TestDeleteElsewhere deletes a session in a process that did not run it: the output of its
// background run is removed from its workspace, and nothing else. Imported again there, it uses the
// same folder.
func TestDeleteElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"mine": "words", "script.yaml": `
rules:
  - when: {last_role: notification}
    text: home
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, args: {command: "echo here"}}}]
  - when: {called: spawn_background}
    text: it runs
`})
	p.data = filepath.Join(shortDir(t), "data")
	p.output("run", "--model", "scripted:"+filepath.Join(p.work, "script.yaml"), "--workspace", p.work, "--allow-shell", "go")
	task := p.task()
	artifacts := filepath.Join(p.work, task.ArtifactDir())
	if found, err := os.ReadDir(artifacts); err != nil || len(found) == 0 {
		t.Fatalf("%v, %v, want the output of the run", found, err)
	}
	eng, _ := hold(t, p.data)
	var file bytes.Buffer
	if err := eng.Sessions().Export(t.Context(), task.Session, &file); err != nil {
		t.Fatal(err)
	}

	if err := eng.Sessions().Delete(t.Context(), task.Session); err != nil {
		t.Fatal(err)
	}

	folder, err := eng.workspaces.folder(t.Context(), task.Session)
	// a concurrent retention pass may do it instead
	for deadline := time.Now().Add(20 * time.Second); folder != "" && err == nil && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
		folder, err = eng.workspaces.folder(t.Context(), task.Session)
	}
	if folder != "" || err != nil {
		t.Errorf("a session that is not there: got the folder %s, %v, want none", folder, err)
	}
	if _, err := os.Stat(artifacts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", task.ArtifactDir(), err)
	}
	if text, err := os.ReadFile(filepath.Join(p.work, "mine")); err != nil || string(text) != "words" {
		t.Errorf("got %q, %v, want what was there before the session", text, err)
	}
	_, err = eng.Sessions().Import(t.Context(), bytes.NewReader(file.Bytes()), engine.Import{})
	// its note is not removed yet
	for deadline := time.Now().Add(20 * time.Second); errors.Is(err, perdure.Unavailable) && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
		_, err = eng.Sessions().Import(t.Context(), bytes.NewReader(file.Bytes()), engine.Import{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if folder, err := eng.workspaces.folder(t.Context(), task.Session); folder != p.work || err != nil {
		t.Errorf("got the folder %s, %v, want %s", folder, err, p.work)
	}
}
