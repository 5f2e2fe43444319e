//go:build unix

package file_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/perdure/perdure/tool"
)

// What stands in the canary's folder, and what no answer may hold.
const (
	canaryText = "CANARY-7f1d0c"
	canarySize = 7919 // of the canary: no other file of these tests has it
	canaryName = "canary.txt"
)

// cage is a session's folder beside a folder that nothing may read or change.
type cage struct {
	folder  string // of the session
	private string
	before  string // what private was
	escapes atomic.Int64
}

func newCage(t *testing.T) *cage {
	t.Helper()
	base := memoryFolder(t)
	c := &cage{folder: filepath.Join(base, "session"), private: filepath.Join(base, "private")}
	must(t, os.Mkdir(c.folder, 0o755))
	must(t, os.MkdirAll(filepath.Join(c.private, "sub", "empty"), 0o755))
	text := canaryText + strings.Repeat(".", canarySize-len(canaryText))
	must(t, os.WriteFile(filepath.Join(c.private, canaryName), []byte(text), 0o644))
	must(t, os.WriteFile(filepath.Join(c.private, "sub", canaryName), []byte(text), 0o600))
	must(t, syscall.Mkfifo(filepath.Join(c.private, "fifo"), 0o644))
	c.before = picture(t, c.private)
	return c
}

// memoryFolder is a fresh folder, in memory where the host has such a place: thousands of writes
// are synced there.
func memoryFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "perdure")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// picture says all of a tree that a change would change.
func picture(t *testing.T, folder string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found, err := os.Lstat(name)
		if err != nil {
			return err
		}
		fmt.Fprintln(&out, name, found.Mode(), found.Size(), found.ModTime().UnixNano(), found.Sys().(*syscall.Stat_t).Nlink)
		if found.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			fmt.Fprintln(&out, string(content), err)
		}
		return nil
	})
	must(t, err)
	return out.String()
}

// unharmed compares the canary's folder with what it was.
func (c *cage) unharmed(t *testing.T) {
	t.Helper()
	if after := picture(t, c.private); after != c.before {
		c.escapes.Add(1)
		t.Errorf("outside was changed:\n%s\nit was:\n%s", after, c.before)
	}
}

// answer is what a method gave.
type answer struct {
	content []byte
	stats   []tool.FileStat
	err     error
}

// told checks one answer. Its content and stats must be the session's own, and an error one that
// the model may read and that reveals nothing of the host.
func (c *cage) told(t *testing.T, what string, a answer) {
	t.Helper()
	escaped := strings.Contains(string(a.content), canaryText)
	for _, s := range a.stats {
		escaped = escaped || s.SizeBytes == canarySize || s.Name == canaryName && s.SizeBytes > 100
	}
	if escaped {
		c.escapes.Add(1)
		t.Errorf("%.100q reveals the outside: %d bytes, %+v", what, len(a.content), a.stats)
	}
	var fileError *tool.FileError
	if a.err != nil && (!errors.As(a.err, &fileError) || strings.Contains(a.err.Error(), filepath.Dir(c.folder))) {
		t.Errorf("%.100q: an error that is not for the model: %v", what, a.err)
	}
}
