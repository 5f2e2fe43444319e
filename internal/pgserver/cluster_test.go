package pgserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolderThatWillNotDo starts a server in a folder where it cannot listen: the error says what
// to set.
func TestFolderThatWillNotDo(t *testing.T) {
	cases := []struct {
		name string
		make func(t *testing.T) string // the temporary folder
		want string                    // empty: the folder is fine
	}{
		{"a_long_path", func(t *testing.T) string {
			return filepath.Join(t.TempDir(), strings.Repeat("long", 25))
		}, "set TMPDIR to a folder with a shorter path"},
		{"a_private_one", func(*testing.T) string {
			folder, err := os.MkdirTemp("", "own")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(folder) })
			return folder
			// otherwise the server runs as the same user
		}, map[bool]string{true: "set TMPDIR to a folder that every user may enter"}[os.Getuid() == 0]},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			folder := c.make(t)
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", folder)

			cluster, err := NewCluster(Config{})

			if err == nil {
				err = cluster.Close()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("files left behind: %v, %v", left, err)
			}
		})
	}
}
