package tooltest

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// seed writes initial files, which must succeed.
func seed(t *testing.T, f tool.Files, initial ...tool.InitialFile) {
	t.Helper()
	if _, ok := f.(tool.Seeder); !ok {
		t.Fatal("FI5: these files are not a tool.Seeder, which this suite requires")
	}
	for _, file := range initial {
		if err := tool.SeedFile(t.Context(), f, file); err != nil {
			t.Fatalf("seed %s: %v", file.Path, err)
		}
	}
}

func keepsReadOnlyFiles(t *testing.T, f tool.Files) {
	ctx := t.Context()
	seed(t, f, tool.InitialFile{Path: "/d/e/fixed", Content: "as it is", IsReadOnly: true})
	put(t, f, "/d/other", "1")
	same := []byte("as it is")

	_, writeErr := f.Write(ctx, tool.FileWrite{Path: "/d/e/fixed", Content: []byte("other")})
	_, setErr := f.Write(ctx, tool.FileWrite{Path: "/d/e/fixed", Content: []byte("other"), IfContent: &same})
	_, removeErr := f.Remove(ctx, "/d/e/fixed", true)
	_, parentErr := f.Remove(ctx, "/d/e", true)
	_, aboveErr := f.Remove(ctx, "/d", true)
	for _, err := range []error{writeErr, setErr, removeErr, parentErr, aboveErr} {
		wantError(t, err, perdure.Conflict, "File is read-only: /d/e/fixed")
	}
	_, makeErr := f.MakeDirectory(ctx, "/d/e/fixed")
	wantError(t, makeErr, perdure.Conflict, "path exists but is not a directory: /d/e/fixed")

	stat, err := f.Stat(ctx, "/d/e/fixed")
	listed, listErr := f.List(ctx, "/d/e", false)
	if err != nil || !stat.IsReadOnly || listErr != nil || len(listed) != 1 || !listed[0].IsReadOnly {
		t.Errorf("got %+v, %v; listed %+v, %v", stat, err, listed, listErr)
	}
	wantContent(t, f, "/d/e/fixed", "as it is")
	wantContent(t, f, "/d/other", "1") // a refused operation changes nothing
}

func seedsWritableFiles(t *testing.T, f tool.Files) {
	seed(t, f, tool.InitialFile{Path: "/d/draft", Content: "draft", Encoding: tool.EncodingText},
		tool.InitialFile{Path: "/d/bytes", Content: "AP8=", Encoding: tool.EncodingBase64})

	wantContent(t, f, "/d/draft", "draft")
	wantContent(t, f, "/d/bytes", "\x00\xff")
	put(t, f, "/d/draft", "better")
	wantContent(t, f, "/d/draft", "better")
	if removed, err := f.Remove(t.Context(), "/d", true); !removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// A host that seeds after a crash does not know what it seeded before.
func seedsAgain(t *testing.T, f tool.Files) {
	fixed := tool.InitialFile{Path: "/fixed", Content: "as it is", IsReadOnly: true}
	put(t, f, "/fixed", "in its place")

	seed(t, f, fixed, fixed)
	wantContent(t, f, "/fixed", "as it is")
	stat, err := f.Stat(t.Context(), "/fixed")
	if err != nil || !stat.IsReadOnly {
		t.Errorf("got %+v, %v", stat, err)
	}

	fixed.IsReadOnly = false
	seed(t, f, fixed)
	put(t, f, "/fixed", "free now")
	wantContent(t, f, "/fixed", "free now")
}

func refusesBadSeeds(t *testing.T, f tool.Files) {
	put(t, f, "/d/x", "1")
	for _, initial := range []tool.InitialFile{
		{Path: "relative"}, {Path: "/../out"}, {Path: "/bytes", Content: "#", Encoding: tool.EncodingBase64}, {Path: "/odd", Encoding: "latin1"},
		{Path: "/d", Content: "a directory is there"}, {Path: "/d/x/y", Content: "a file is above"}, {Path: "/", IsReadOnly: true},
	} {
		err := tool.SeedFile(t.Context(), f, initial)

		var fileErr *tool.FileError
		if !errors.As(err, &fileErr) {
			t.Errorf("%+v: got %v", initial, err)
		}
	}
	if stats, err := f.List(t.Context(), "/", true); len(stats) != 2 || err != nil {
		t.Errorf("something was created: %+v, %v", stats, err)
	}
}
