package tooltest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// FileQuotas checks the laws about the limits of files. open returns empty files with the given
// limits. If they are a [RuntimeWriter], its writes must ignore the quota of the session.
func FileQuotas(t *testing.T, open func(t *testing.T, l tool.FileLimits) tool.Files) {
	limits := tool.FileLimits{MaxFileBytes: 1000, MaxSessionBytes: 2500}
	for _, law := range []struct {
		name  string
		check func(t *testing.T, f tool.Files)
	}{
		{"FI6 refuses a file that is too large", refusesLargeFiles},
		{"FI6 refuses what exceeds the session limit, and names used and limit", refusesFullSessions},
		{"FI6 counts what a write replaces", countsTheDifference},
		{"FI6 one of many writers gets the last bytes", lastRoomIsTakenOnce},
		{"FI6 does not limit the runtime", letsTheRuntimePass},
	} {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			law.check(t, open(t, limits))
		})
	}
}

// sized returns a content of n bytes.
func sized(n int) string { return strings.Repeat("x", n) }

func refusesLargeFiles(t *testing.T, f tool.Files) {
	put(t, f, "/d/fits", sized(1000))

	_, err := f.Write(t.Context(), tool.FileWrite{Path: "/d/large", Content: []byte(sized(1001))})
	_, againErr := f.Write(t.Context(), tool.FileWrite{Path: "/d/fits", Content: []byte(sized(1001))})
	seedErr := tool.SeedFile(t.Context(), f, tool.InitialFile{Path: "/d/seed", Content: sized(1001)})

	wantError(t, err, perdure.Limit, "File too large: /d/large has 1001 bytes, the limit is 1000.")
	wantError(t, againErr, perdure.Limit, "File too large: /d/fits has 1001 bytes, the limit is 1000.")
	wantError(t, seedErr, perdure.Limit, "File too large: /d/seed has 1001 bytes, the limit is 1000.")
	wantContent(t, f, "/d/fits", sized(1000))
	if stats, err := f.List(t.Context(), "/d", false); len(stats) != 1 || err != nil {
		t.Errorf("left behind: %+v, %v", stats, err)
	}
}

func refusesFullSessions(t *testing.T, f tool.Files) {
	put(t, f, "/a", sized(1000))
	put(t, f, "/d/b", sized(1000))

	_, err := f.Write(t.Context(), tool.FileWrite{Path: "/new/c", Content: []byte(sized(501))})
	seedErr := tool.SeedFile(t.Context(), f, tool.InitialFile{Path: "/new/c", Content: sized(501)})

	const want = "No room for /new/c: the session's files use 2000 bytes, it would add 501, the limit is 2500. Delete files that are not needed."
	wantError(t, err, perdure.Limit, want)
	wantError(t, seedErr, perdure.Limit, want)
	if _, err := f.Stat(t.Context(), "/new"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a refused write left its parent: %v", err)
	}
	put(t, f, "/new/c", sized(500)) // up to the last byte
	put(t, f, "/empty", "")
}

func countsTheDifference(t *testing.T, f tool.Files) {
	for _, name := range []string{"/a", "/b"} {
		put(t, f, name, sized(1000))
	}
	put(t, f, "/c", sized(500))

	put(t, f, "/a", sized(1000)) // the size does not change
	put(t, f, "/a", sized(400))
	put(t, f, "/d", sized(600))
	_, err := f.Write(t.Context(), tool.FileWrite{Path: "/a", Content: []byte(sized(401))})
	wantError(t, err, perdure.Limit, "No room for /a: the session's files use 2500 bytes, it would add 1, the limit is 2500. Delete files that are not needed.")

	if removed, err := f.Remove(t.Context(), "/d", false); !removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	put(t, f, "/a", sized(1000))
}

func lastRoomIsTakenOnce(t *testing.T, f tool.Files) {
	put(t, f, "/a", sized(1000))
	put(t, f, "/b", sized(1000))
	var mu sync.Mutex
	taken := 0
	var writing sync.WaitGroup
	for i := range 8 {
		writing.Go(func() {
			_, err := f.Write(t.Context(), tool.FileWrite{Path: fmt.Sprintf("/last%d", i), Content: []byte(sized(300))})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				taken++
			case !errors.Is(err, perdure.Limit):
				t.Errorf("got %v", err)
			}
		})
	}
	writing.Wait()

	if taken != 1 {
		t.Errorf("%d writers succeeded", taken)
	}
}

func letsTheRuntimePass(t *testing.T, f tool.Files) {
	writer, ok := f.(RuntimeWriter)
	if !ok {
		t.Fatal("FI6: these files are not a RuntimeWriter, which this suite requires")
	}
	put(t, f, "/a", sized(1000))
	put(t, f, "/b", sized(1000))
	put(t, f, "/c", sized(500))

	put(t, writer.Runtime(), "/.background/bg_1/output.log", sized(900))
	put(t, writer.Runtime(), "/.background/bg_1/output.log", sized(1000))

	_, err := f.Write(t.Context(), tool.FileWrite{Path: "/d", Content: []byte("1")})
	wantError(t, err, perdure.Limit, "No room for /d: the session's files use 3500 bytes, it would add 1, the limit is 2500. Delete files that are not needed.")
	put(t, f, "/a", sized(1000)) // a write that does not grow is accepted, however full the session is
	put(t, f, "/a", sized(999))
}
