package tooltest

import (
	"fmt"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// mover returns the files as a [tool.Mover], or fails the test.
func mover(t *testing.T, f tool.Files) tool.Mover {
	t.Helper()
	m, ok := f.(tool.Mover)
	if !ok {
		t.Fatalf("%T is not a tool.Mover", f)
	}
	return m
}

func movesFilesAndDirectories(t *testing.T, f tool.Files) {
	m := mover(t, f)
	put(t, f, "/a/one", "1")
	put(t, f, "/a/b/two", "22")

	file, err := m.Move(t.Context(), "/a/one", "/new/place/uno")
	if err != nil || file.Path != "/new/place/uno" || file.SizeBytes != 1 {
		t.Errorf("got %+v, %v", file, err)
	}
	dir, err := m.Move(t.Context(), "/a", "/c")
	if err != nil || dir.Path != "/c" || !dir.IsDirectory {
		t.Errorf("got %+v, %v", dir, err)
	}

	wantContent(t, f, "/new/place/uno", "1")
	wantContent(t, f, "/c/b/two", "22")
	_, gone := f.Stat(t.Context(), "/a")
	wantError(t, gone, perdure.NotFound, "File not found: /a")
}

func movesOverNothing(t *testing.T, f tool.Files) {
	m := mover(t, f)
	put(t, f, "/a/one", "1")
	put(t, f, "/b", "2")
	seeder, ok := f.(tool.Seeder)
	if !ok {
		t.Fatalf("%T is not a tool.Seeder", f)
	}
	if err := seeder.Seed(t.Context(), tool.InitialFile{Path: "/r/fixed", Content: "3", IsReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		kind     perdure.Kind
		text     string
	}{
		{"/a/one", "/b", perdure.Conflict, "Path already exists: /b"},
		{"/a", "/b", perdure.Conflict, "Path already exists: /b"},
		{"/b", "/a", perdure.Conflict, "Path already exists: /a"},
		{"/none", "/c", perdure.NotFound, "File not found: /none"},
		{"/r/fixed", "/c", perdure.Conflict, "File is read-only: /r/fixed"},
		{"/r", "/c", perdure.Conflict, "File is read-only: /r/fixed"},
		{"/a", "/a/one/two", perdure.Invalid, "Cannot move /a to /a/one/two: the target is the source itself or inside it."},
		{"/", "/c", perdure.Invalid, "The root directory cannot be moved or replaced."},
		{"/b", "/.background/x", perdure.Conflict, "File is read-only: /.background/x"},
		{"/b", "/a/one/x", perdure.Conflict, "path exists but is not a directory: /a/one"},
	} {
		_, err := m.Move(t.Context(), c.from, c.to)
		if err == nil {
			t.Errorf("%s to %s: moved", c.from, c.to)
			continue
		}
		wantError(t, err, c.kind, c.text)
	}
	wantContent(t, f, "/a/one", "1")
	wantContent(t, f, "/b", "2")
}

func removesWhatWasRead(t *testing.T, f tool.Files) {
	m := mover(t, f)
	put(t, f, "/a", "new")

	_, err := m.RemoveIf(t.Context(), "/a", []byte("old"))
	wantError(t, err, perdure.Conflict, "File changed since it was read: /a. Read it again.")
	wantContent(t, f, "/a", "new")
	for i, want := range []bool{true, false} {
		if removed, err := m.RemoveIf(t.Context(), "/a", []byte("new")); removed != want || err != nil {
			t.Errorf("removal %d: %v, %v", i, removed, err)
		}
	}
	put(t, f, "/d/x", "x")
	_, err = m.RemoveIf(t.Context(), "/d", nil)
	wantError(t, err, perdure.Conflict, "Is a directory: /d")
}

func createsOnce(t *testing.T, f tool.Files) {
	for i := range 2 {
		_, err := f.Write(t.Context(), tool.FileWrite{Path: "/a", Content: fmt.Append(nil, i), MustNotExist: true})
		if i == 0 && err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			wantError(t, err, perdure.Conflict, "Path already exists: /a")
		}
	}
	wantContent(t, f, "/a", "0")
}
