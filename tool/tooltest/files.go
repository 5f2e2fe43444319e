package tooltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// RuntimeWriter is a tool.Files that also has a view which may write below /.background.
type RuntimeWriter interface {
	// Runtime returns that view.
	Runtime() tool.Files
}

// Files checks the laws of session files, except for their limits, which [FileQuotas] checks. open
// returns empty files. The laws about read-only files and about the runtime's directory require a
// [tool.Seeder] and a [RuntimeWriter], and fail without them.
func Files(t *testing.T, open func(t *testing.T) tool.Files) {
	for _, law := range []struct {
		name  string
		check func(t *testing.T, f tool.Files)
	}{
		{"FI1 refuses invalid paths", refusesBadPaths},
		{"FI1 normalises once", normalisesPaths},
		{"FI1 preserves case", keepsCase},
		{"FI1 accepts the longest and the deepest path", takesLongPaths},
		{"FI2 reads what was written", readsWhatWasWritten},
		{"FI2 creates missing parents", makesParents},
		{"FI2 replaces atomically", replacesAtomically},
		{"FI2 creates directories", makesDirectories},
		{"FI2 refuses a file as a directory", refusesFileAsDirectory},
		{"FI2 refuses a directory as a file", refusesDirectoryAsFile},
		{"FI3 compares and sets", comparesAndSets},
		{"FI3 compares the encoding with the content", comparesEncodings},
		{"FI3 one of many setters wins", oneSetterWins},
		{"FI4 distinguishes missing from empty", tellsMissingFromEmpty},
		{"FI4 lists by name and by path", listsSorted},
		{"FI4 reports whether it removed", saysWhetherItRemoved},
		{"FI4 keeps a full directory and the root", keepsFullDirectories},
		{"FI5 keeps read-only files", keepsReadOnlyFiles},
		{"FI5 seeds what the model may change", seedsWritableFiles},
		{"FI5 seeds again", seedsAgain},
		{"FI5 refuses invalid seeds", refusesBadSeeds},
		{"FI7 protects the runtime's directory", keepsRuntimeDirectory},
		{"moves files and directories", movesFilesAndDirectories},
		{"moves over nothing", movesOverNothing},
		{"removes what was read", removesWhatWasRead},
		{"creates once", createsOnce},
		{"ends with its context", endsWithContext},
	} {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			law.check(t, open(t))
		})
	}
}

// put writes a file, which must succeed.
func put(t *testing.T, f tool.Files, name, content string) {
	t.Helper()
	if _, err := f.Write(t.Context(), tool.FileWrite{Path: name, Content: []byte(content)}); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
}

// wantContent reads a file, which must succeed, and compares it.
func wantContent(t *testing.T, f tool.Files, name, want string) {
	t.Helper()
	got, err := f.Read(t.Context(), name)
	if err != nil || string(got.Content) != want {
		t.Errorf("read %s: %q, %v; want %q", name, got.Content, err, want)
	}
}

// wantError checks for an error for the model with a kind and a text.
func wantError(t *testing.T, err error, kind perdure.Kind, text string) {
	t.Helper()
	var fileErr *tool.FileError
	if !errors.As(err, &fileErr) || !errors.Is(err, kind) || err.Error() != text {
		t.Errorf("got %v, want %s: %s", err, kind, text)
	}
}

func refusesBadPaths(t *testing.T, f tool.Files) {
	ctx := t.Context()
	for _, name := range []string{"", "a", "../a", "/..", "/a/../b", "//a", "/a//b", "/a\\b", "/a\x00b", "/a\nb", "/a\xff", "/" + strings.Repeat("a/", 65), "/" + strings.Repeat("a", 4096)} {
		_, statErr := f.Stat(ctx, name)
		_, readErr := f.Read(ctx, name)
		_, writeErr := f.Write(ctx, tool.FileWrite{Path: name})
		_, removeErr := f.Remove(ctx, name, true)
		_, listErr := f.List(ctx, name, false)
		_, makeErr := f.MakeDirectory(ctx, name)
		for step, err := range []error{statErr, readErr, writeErr, removeErr, listErr, makeErr} {
			var fileErr *tool.FileError
			if !errors.As(err, &fileErr) || !errors.Is(err, perdure.Invalid) {
				t.Errorf("%.20q, step %d: got %v", name, step, err)
			}
		}
	}
	if stats, err := f.List(ctx, "/", true); len(stats) != 0 || err != nil {
		t.Errorf("something was created: %v, %v", stats, err)
	}
}

func normalisesPaths(t *testing.T, f tool.Files) {
	put(t, f, "/a/./b/", "1")

	wantContent(t, f, "/a/b", "1")
	got, err := f.Stat(t.Context(), "/./a/b/.")
	if err != nil || got.Path != "/a/b" || got.Name != "b" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func keepsCase(t *testing.T, f tool.Files) {
	names := []string{"/a", "/A", "/\u00e9", "/e\u0301", "/\u00df", "/ss", "/SS", "/\ufb01", "/fi", "/\u212a", "/k", "/K", "/\u0131", "/i", "/I", "/d/x", "/D/x", "/D/X"}
	for _, name := range names {
		put(t, f, name, "of "+name)
	}

	for _, name := range names {
		wantContent(t, f, name, "of "+name)
	}
	if stats, err := f.List(t.Context(), "/", true); len(stats) != len(names)+2 || err != nil {
		t.Errorf("%d entries exist, %v", len(stats), err)
	}
}

func takesLongPaths(t *testing.T, f tool.Files) {
	for _, name := range []string{strings.Repeat("/"+strings.Repeat("n", 255), 16), strings.Repeat("/d", 64)} {
		put(t, f, name, "far below")

		wantContent(t, f, name, "far below")
		if stats, err := f.List(t.Context(), "/", true); err != nil || stats[len(stats)-1].Path != name {
			t.Errorf("it is not listed: %d, %v", len(stats), err)
		}
		if removed, err := f.Remove(t.Context(), name[:strings.Index(name[1:], "/")+1], true); !removed || err != nil {
			t.Errorf("removed %v, %v", removed, err)
		}
	}
}

func readsWhatWasWritten(t *testing.T, f tool.Files) {
	for name, content := range map[string]string{
		"/text": "Grüße, 世界\n", "/empty": "", "/nul": "a\x00b", "/bytes": "\xff\xfe\x00\x01", "/large": strings.Repeat("0123456789abcdef", 1<<16),
		"/.hidden": "x", "/a b": "space", "/世界": "wide", "/-rf": "dash", "/0123": "digits", "/%2e%2e": "percent", "/CON": "reserved elsewhere",
	} {
		created, err := f.Write(t.Context(), tool.FileWrite{Path: name, Content: []byte(content)})
		if !created || err != nil {
			t.Errorf("write %s: %v, %v", name, created, err)
		}
		wantContent(t, f, name, content)
		stat, err := f.Stat(t.Context(), name)
		if err != nil || stat.SizeBytes != int64(len(content)) || stat.IsDirectory || stat.IsReadOnly || stat.CreatedAt.IsZero() || stat.UpdatedAt.IsZero() {
			t.Errorf("stat %s: %+v, %v", name, stat, err)
		}
	}

	created, err := f.Write(t.Context(), tool.FileWrite{Path: "/text", Content: []byte("other")})
	if created || err != nil {
		t.Errorf("replaced: created %v, %v", created, err)
	}
	wantContent(t, f, "/text", "other")
}

func makesParents(t *testing.T, f tool.Files) {
	put(t, f, "/a/b/c", "1")

	for _, dir := range []string{"/", "/a", "/a/b"} {
		if stat, err := f.Stat(t.Context(), dir); err != nil || !stat.IsDirectory {
			t.Errorf("%s: %+v, %v", dir, stat, err)
		}
	}
}

func replacesAtomically(t *testing.T, f tool.Files) {
	contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	put(t, f, "/f", contents[0])
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 20 {
			if _, err := f.Write(t.Context(), tool.FileWrite{Path: "/f", Content: []byte(contents[i%2])}); err != nil {
				t.Errorf("write: %v", err)
			}
		}
	})

	for range 100 {
		got, err := f.Read(t.Context(), "/f")
		if err != nil || !slices.Contains(contents, string(got.Content)) {
			t.Errorf("read %d bytes, %v", len(got.Content), err)
			break
		}
	}
	writing.Wait()
	if stats, err := f.List(t.Context(), "/", true); len(stats) != 1 || err != nil {
		t.Errorf("left behind: %v, %v", stats, err)
	}
}

func makesDirectories(t *testing.T, f tool.Files) {
	made, err := f.MakeDirectory(t.Context(), "/a/b")
	if err != nil || !made.IsDirectory || made.Path != "/a/b" || made.Name != "b" {
		t.Errorf("got %+v, %v", made, err)
	}
	put(t, f, "/a/b/c", "1")

	again, err := f.MakeDirectory(t.Context(), "/a/b/")
	if err != nil || !again.IsDirectory || again.Path != "/a/b" {
		t.Errorf("got %+v, %v", again, err)
	}
	wantContent(t, f, "/a/b/c", "1")
}

func refusesFileAsDirectory(t *testing.T, f tool.Files) {
	ctx := t.Context()
	put(t, f, "/f", "1")

	_, makeErr := f.MakeDirectory(ctx, "/f")
	_, writeErr := f.Write(ctx, tool.FileWrite{Path: "/f/child", Content: []byte("2")})
	_, deepErr := f.Write(ctx, tool.FileWrite{Path: "/f/a/b", Content: []byte("2")})
	_, makeDeepErr := f.MakeDirectory(ctx, "/f/a/b")
	_, listErr := f.List(ctx, "/f", false)
	_, readErr := f.Read(ctx, "/f/child")
	removed, removeErr := f.Remove(ctx, "/f/child", false)

	for _, err := range []error{makeErr, writeErr, deepErr, makeDeepErr} {
		wantError(t, err, perdure.Conflict, "path exists but is not a directory: /f")
	}
	wantError(t, listErr, perdure.NotFound, "Directory not found: /f")
	wantError(t, readErr, perdure.NotFound, "File not found: /f/child")
	if removed || removeErr != nil {
		t.Errorf("removed %v, %v", removed, removeErr)
	}
	wantContent(t, f, "/f", "1")
}

func refusesDirectoryAsFile(t *testing.T, f tool.Files) {
	ctx := t.Context()
	put(t, f, "/d/x", "1")

	_, readErr := f.Read(ctx, "/d")
	_, writeErr := f.Write(ctx, tool.FileWrite{Path: "/d", Content: []byte("2")})
	_, rootErr := f.Write(ctx, tool.FileWrite{Path: "/", Content: []byte("2")})

	wantError(t, readErr, perdure.Conflict, "Is a directory: /d")
	wantError(t, writeErr, perdure.Conflict, "Is a directory: /d")
	wantError(t, rootErr, perdure.Conflict, "Is a directory: /")
	wantContent(t, f, "/d/x", "1")
}

func comparesAndSets(t *testing.T, f tool.Files) {
	set := func(name, was, content string) error {
		expected := []byte(was)
		_, err := f.Write(t.Context(), tool.FileWrite{Path: name, Content: []byte(content), IfContent: &expected})
		return err
	}
	put(t, f, "/f", "one")
	put(t, f, "/empty", "")
	put(t, f, "/d/x", "1")

	if err := set("/f", "one", "two"); err != nil {
		t.Errorf("match: %v", err)
	}
	if err := set("/empty", "", "full"); err != nil {
		t.Errorf("match of nothing: %v", err)
	}
	wantError(t, set("/f", "one", "three"), perdure.Conflict, "File changed since it was read: /f. Read it again.")
	wantError(t, set("/f", "twos", "three"), perdure.Conflict, "File changed since it was read: /f. Read it again.")
	wantError(t, set("/f", "", "three"), perdure.Conflict, "File changed since it was read: /f. Read it again.")
	for _, name := range []string{"/missing", "/missing/too", "/d", "/"} {
		if err := set(name, "", "three"); !errors.Is(err, perdure.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}

	wantContent(t, f, "/f", "two")
	wantContent(t, f, "/empty", "full")
	if _, err := f.Stat(t.Context(), "/missing"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a failed write left a parent: %v", err)
	}
}

// The base64 text of some bytes is different content from these bytes.
func comparesEncodings(t *testing.T, f tool.Files) {
	content := []byte("\x00\xff")
	text, encoding := tool.EncodeContent(content)
	if encoding != tool.EncodingBase64 {
		t.Fatalf("%q is %s", content, encoding)
	}
	put(t, f, "/bytes", string(content))
	put(t, f, "/text", text)
	asText := []byte(text)

	_, bytesErr := f.Write(t.Context(), tool.FileWrite{Path: "/bytes", Content: []byte("new"), IfContent: &asText})
	_, textErr := f.Write(t.Context(), tool.FileWrite{Path: "/text", Content: []byte("new"), IfContent: &content})

	wantError(t, bytesErr, perdure.Conflict, "File changed since it was read: /bytes. Read it again.")
	wantError(t, textErr, perdure.Conflict, "File changed since it was read: /text. Read it again.")
	wantContent(t, f, "/bytes", string(content))
	wantContent(t, f, "/text", text)
}

func oneSetterWins(t *testing.T, f tool.Files) {
	for round := range 20 {
		name := fmt.Sprintf("/f%d", round)
		put(t, f, name, "start")

		winners := setAtOnce(t, f, name)

		if len(winners) != 1 {
			t.Fatalf("round %d: %d winners: %v", round, len(winners), winners)
		}
		wantContent(t, f, name, winners[0])
	}
}

// setAtOnce lets eight goroutines replace the content "start" at once and returns the contents that
// were accepted.
func setAtOnce(t *testing.T, f tool.Files, name string) (winners []string) {
	t.Helper()
	expected := []byte("start")
	var mu sync.Mutex
	var setting sync.WaitGroup
	begin := make(chan struct{})
	for i := range 8 {
		setting.Go(func() {
			content := fmt.Sprintf("setter %d", i)
			<-begin
			_, err := f.Write(t.Context(), tool.FileWrite{Path: name, Content: []byte(content), IfContent: &expected})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				winners = append(winners, content)
			case !errors.Is(err, perdure.Conflict):
				t.Errorf("got %v", err)
			}
		})
	}
	close(begin)
	setting.Wait()
	return winners
}

func tellsMissingFromEmpty(t *testing.T, f tool.Files) {
	ctx := t.Context()
	if _, err := f.MakeDirectory(ctx, "/empty"); err != nil {
		t.Fatal(err)
	}

	for _, deep := range []bool{false, true} {
		if stats, err := f.List(ctx, "/empty", deep); len(stats) != 0 || err != nil {
			t.Errorf("got %v, %v", stats, err)
		}
		_, err := f.List(ctx, "/missing", deep)
		wantError(t, err, perdure.NotFound, "Directory not found: /missing")
	}
	_, readErr := f.Read(ctx, "/missing")
	wantError(t, readErr, perdure.NotFound, "File not found: /missing")
	_, statErr := f.Stat(ctx, "/missing")
	wantError(t, statErr, perdure.NotFound, "File not found: /missing")
}

func listsSorted(t *testing.T, f tool.Files) {
	for _, name := range []string{"/b", "/a/z", "/a/y/x", "/c", "/a-b", "/B"} {
		put(t, f, name, "1")
	}
	paths := func(stats []tool.FileStat, err error) []string {
		if err != nil {
			t.Error(err)
		}
		var names []string
		for _, s := range stats {
			names = append(names, s.Path)
		}
		return names
	}

	flat := paths(f.List(t.Context(), "/", false))
	deep := paths(f.List(t.Context(), "/", true))
	below := paths(f.List(t.Context(), "/a/", true))

	if want := []string{"/B", "/a", "/a-b", "/b", "/c"}; !slices.Equal(flat, want) {
		t.Errorf("got %v, want %v", flat, want)
	}
	if want := []string{"/B", "/a", "/a-b", "/a/y", "/a/y/x", "/a/z", "/b", "/c"}; !slices.Equal(deep, want) {
		t.Errorf("got %v, want %v", deep, want)
	}
	if want := []string{"/a/y", "/a/y/x", "/a/z"}; !slices.Equal(below, want) {
		t.Errorf("got %v, want %v", below, want)
	}
}

func saysWhetherItRemoved(t *testing.T, f tool.Files) {
	ctx := t.Context()
	put(t, f, "/f", "1")
	put(t, f, "/d/e/x", "1")
	for _, step := range []struct {
		name      string
		recursive bool
		want      bool
	}{
		{"/f", false, true}, {"/f", false, false}, {"/missing/too", true, false}, {"/d/e/x", true, true}, {"/d/e", false, true}, {"/d", true, true}, {"/d", true, false},
	} {
		removed, err := f.Remove(ctx, step.name, step.recursive)
		if removed != step.want || err != nil {
			t.Errorf("remove %s: %v, %v", step.name, removed, err)
		}
	}
	if stats, err := f.List(ctx, "/", true); len(stats) != 0 || err != nil {
		t.Errorf("left: %v, %v", stats, err)
	}
}

func keepsFullDirectories(t *testing.T, f tool.Files) {
	ctx := t.Context()
	put(t, f, "/d/x", "1")
	put(t, f, "/d/e/y", "2")

	removed, err := f.Remove(ctx, "/d", false)
	wantError(t, err, perdure.Conflict, "Directory not empty: /d. Set recursive to true.")
	_, rootErr := f.Remove(ctx, "/", true)
	if removed || !errors.Is(rootErr, perdure.Invalid) {
		t.Errorf("removed %v, %v", removed, rootErr)
	}
	wantContent(t, f, "/d/x", "1")

	removed, err = f.Remove(ctx, "/d", true)
	if !removed || err != nil {
		t.Errorf("recursive: %v, %v", removed, err)
	}
	if _, err := f.Stat(ctx, "/d"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v", err)
	}
}

func keepsRuntimeDirectory(t *testing.T, f tool.Files) {
	ctx := t.Context()
	for _, name := range []string{"/.background", "/.background/bg_1/output.log", "/./.background/x/"} {
		_, writeErr := f.Write(ctx, tool.FileWrite{Path: name, Content: []byte("forged")})
		_, makeErr := f.MakeDirectory(ctx, name)
		_, removeErr := f.Remove(ctx, name, true)
		clean, _ := tool.CleanPath(name)
		for _, err := range []error{writeErr, makeErr, removeErr} {
			wantError(t, err, perdure.Conflict, "File is read-only: "+clean)
		}
	}
	put(t, f, "/.backgrounds", "not the same name")

	writer, ok := f.(RuntimeWriter)
	if !ok {
		t.Fatal("FI7: these files are not a RuntimeWriter, which this suite requires")
	}
	put(t, writer.Runtime(), "/.background/bg_1/output.log", "written")
	wantContent(t, f, "/.background/bg_1/output.log", "written")
	if stats, err := f.List(ctx, "/.background", true); len(stats) != 2 || err != nil {
		t.Errorf("got %v, %v", stats, err)
	}
	if removed, err := writer.Runtime().Remove(ctx, "/.background", true); !removed || err != nil {
		t.Errorf("got %v, %v", removed, err)
	}
}

func endsWithContext(t *testing.T, f tool.Files) {
	put(t, f, "/f", "1")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(perdure.CauseShutdown)

	got, readErr := f.Read(ctx, "/f")
	_, writeErr := f.Write(ctx, tool.FileWrite{Path: "/f", Content: []byte("2")})

	if readErr == nil && !bytes.Equal(got.Content, []byte("1")) {
		t.Errorf("read %q", got.Content)
	}
	if writeErr == nil {
		t.Error("a write was accepted after ctx had ended")
	}
	wantContent(t, f, "/f", "1")
}
