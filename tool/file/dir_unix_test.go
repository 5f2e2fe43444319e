//go:build unix

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// outside is a folder beside the session's, with a secret in it.
type outside struct {
	folder string // of the session
	secret string
}

func newOutside(t *testing.T) outside {
	t.Helper()
	base := t.TempDir()
	o := outside{folder: filepath.Join(base, "session"), secret: filepath.Join(base, "private", "secret")}
	must(t, os.Mkdir(o.folder, 0o755))
	must(t, os.Mkdir(filepath.Dir(o.secret), 0o755))
	must(t, os.WriteFile(o.secret, []byte("hunter2"), 0o644))
	return o
}

func (o outside) unharmed(t *testing.T) {
	t.Helper()
	if got, err := os.ReadFile(o.secret); err != nil || string(got) != "hunter2" {
		t.Errorf("the secret is %q, %v", got, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(o.secret)); err != nil || len(entries) != 1 {
		t.Errorf("beside the secret: %v, %v", entries, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDirNeverFollowsALinkOut(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(o outside) (link, path string){
		"to a file":           func(o outside) (string, string) { return o.secret, "/link" },
		"to a folder":         func(o outside) (string, string) { return filepath.Dir(o.secret), "/link/secret" },
		"relative":            func(outside) (string, string) { return "../private/secret", "/link" },
		"relative to a root":  func(outside) (string, string) { return "../private", "/link/secret" },
		"to the whole host":   func(o outside) (string, string) { return "/", "/link" + o.secret },
		"to its own parent":   func(outside) (string, string) { return "..", "/link/private/secret" },
		"to nothing out here": func(o outside) (string, string) { return o.secret + "-missing", "/link" },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t)
			link, path := target(o)
			must(t, os.Symlink(link, filepath.Join(o.folder, "link")))
			d, ctx := openDir(t, o.folder), t.Context()
			was := []byte("hunter2")

			_, statErr := d.Stat(ctx, path)
			_, readErr := d.Read(ctx, path)
			_, writeErr := d.Write(ctx, tool.FileWrite{Path: path, Content: []byte("gone")})
			_, setErr := d.Write(ctx, tool.FileWrite{Path: path, Content: []byte("gone"), IfContent: &was})
			_, belowErr := d.Write(ctx, tool.FileWrite{Path: path + "/new", Content: []byte("gone")})
			_, makeErr := d.MakeDirectory(ctx, path+"/new")
			listed, listErr := d.List(ctx, "/", true)

			for step, err := range []error{statErr, readErr, writeErr, setErr, belowErr, makeErr} {
				if err == nil {
					t.Fatalf("step %d was done", step)
				}
				var told *tool.FileError
				said := strings.ReplaceAll(err.Error(), path, "")
				if !errors.As(err, &told) || strings.Contains(said, filepath.Dir(o.folder)) {
					t.Errorf("step %d: got %v", step, err)
				}
			}
			if len(listed) != 0 || listErr != nil {
				t.Errorf("listed %v, %v", listed, listErr)
			}
			if _, err := d.Remove(ctx, "/link", true); err != nil {
				t.Errorf("the link cannot be removed: %v", err)
			}
			o.unharmed(t)
		})
	}
}

func TestDirLinksInside(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(folder, "real"), 0o755))
	must(t, os.WriteFile(filepath.Join(folder, "real", "f"), []byte("inside"), 0o644))
	must(t, os.Symlink("real/f", filepath.Join(folder, "to-file")))
	must(t, os.Symlink("real", filepath.Join(folder, "to-dir")))
	must(t, os.Symlink("..", filepath.Join(folder, "real", "up")))
	must(t, os.Symlink("loop", filepath.Join(folder, "loop")))
	d, ctx := openDir(t, folder), t.Context()

	byFile, err := d.Read(ctx, "/to-file")
	if err != nil || string(byFile.Content) != "inside" {
		t.Errorf("got %q, %v", byFile.Content, err)
	}
	byDir, err := d.Read(ctx, "/to-dir/f")
	if err != nil || string(byDir.Content) != "inside" {
		t.Errorf("got %q, %v", byDir.Content, err)
	}
	if _, err := d.Write(ctx, tool.FileWrite{Path: "/to-file", Content: []byte("x")}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a link was written through: %v", err)
	}
	if _, err := d.Read(ctx, "/loop"); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a circle: %v", err)
	}
	var paths []string
	stats, err := d.List(ctx, "/", true)
	for _, s := range stats {
		paths = append(paths, s.Path)
	}
	if want := []string{"/real", "/real/f", "/real/up", "/to-dir", "/to-file"}; !slices.Equal(paths, want) || err != nil {
		t.Errorf("got %v, %v", paths, err)
	}
	if removed, err := d.Remove(ctx, "/to-dir", true); !removed || err != nil {
		t.Errorf("got %v, %v", removed, err)
	}
	if _, err := d.Read(ctx, "/real/f"); err != nil {
		t.Errorf("removing a link removed what it leads to: %v", err)
	}
}

func TestDirOpensRegularFilesOnly(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o644))
	must(t, os.Symlink("fifo", filepath.Join(folder, "to-fifo")))
	d, ctx := openDir(t, folder), t.Context()

	for _, name := range []string{"/fifo", "/to-fifo"} { // neither waits for a writer
		_, readErr := d.Read(ctx, name)
		_, statErr := d.Stat(ctx, name)
		_, writeErr := d.Write(ctx, tool.FileWrite{Path: name, Content: []byte("x")})
		_, listErr := d.List(ctx, name, false)
		for step, err := range []error{readErr, statErr, writeErr, listErr} {
			var told *tool.FileError
			if !errors.As(err, &told) {
				t.Errorf("%s, step %d: got %v", name, step, err)
			}
		}
	}
	if stats, err := d.List(ctx, "/", true); len(stats) != 0 || err != nil {
		t.Errorf("got %v, %v", stats, err)
	}
}

// A write gives a name new content; other names of the old content keep it.
func TestDirSparesHardLinks(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	must(t, os.Link(o.secret, filepath.Join(o.folder, "hard")))
	d, ctx := openDir(t, o.folder), t.Context()

	if _, err := d.Write(ctx, tool.FileWrite{Path: "/hard", Content: []byte("mine")}); err != nil {
		t.Error(err)
	}

	o.unharmed(t)
	if got, err := d.Read(ctx, "/hard"); err != nil || string(got.Content) != "mine" {
		t.Errorf("got %q, %v", got.Content, err)
	}
}

func TestDirRuntimeFilesBehindALink(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d, ctx := openDir(t, folder), t.Context()
	_, err := d.Runtime().Write(ctx, tool.FileWrite{Path: "/.background/bg_1/output.log", Content: []byte("true")})
	must(t, err)
	must(t, os.Symlink(".background", filepath.Join(folder, "alias")))

	_, writeErr := d.Write(ctx, tool.FileWrite{Path: "/alias/bg_1/output.log", Content: []byte("forged")})
	_, removeErr := d.Remove(ctx, "/alias/bg_1", true)

	if !errors.Is(writeErr, perdure.Conflict) || !errors.Is(removeErr, perdure.Conflict) {
		t.Errorf("got %v, %v", writeErr, removeErr)
	}
}

func TestDirKeepsModes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	script := filepath.Join(folder, "run.sh")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	d, ctx := openDir(t, folder), t.Context()

	_, err := d.Write(ctx, tool.FileWrite{Path: "/run.sh", Content: []byte("#!/bin/bash\n")})
	must(t, err)

	found, err := os.Stat(script)
	if err != nil || found.Mode().Perm() != 0o755 {
		t.Errorf("got %v, %v", found.Mode(), err)
	}
}

// A crash may leave a file that was being written. Nobody sees it, and it keeps no directory.
func TestDirHidesUnfinishedWrites(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(folder, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(folder, "d", ".perdure-write-ABC"), []byte("half"), 0o600))
	d, ctx := openDir(t, folder), t.Context()

	if stats, err := d.List(ctx, "/d", true); len(stats) != 0 || err != nil {
		t.Errorf("got %v, %v", stats, err)
	}
	if _, err := d.Write(ctx, tool.FileWrite{Path: "/d/.perdure-write-X"}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("got %v", err)
	}
	if removed, err := d.Remove(ctx, "/d", false); !removed || err != nil {
		t.Errorf("got %v, %v", removed, err)
	}
}

func TestDirCleansUpAfterAFailedWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d, ctx := openDir(t, folder), t.Context()

	_, err := d.Write(ctx, tool.FileWrite{Path: "/" + strings.Repeat("n", 300), Content: []byte("x")})

	if !errors.Is(err, perdure.Invalid) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(folder); len(entries) != 0 || err != nil {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestDirRefusesLargeFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "large"), nil, 0o644))
	must(t, os.Truncate(filepath.Join(folder, "large"), 100<<20+1)) // sparse
	d, ctx := openDir(t, folder), t.Context()

	_, readErr := d.Read(ctx, "/large")
	_, writeErr := d.Write(ctx, tool.FileWrite{Path: "/new", Content: make([]byte, 100<<20+1)})

	for _, err := range []error{readErr, writeErr} {
		if !errors.Is(err, perdure.Limit) || !strings.Contains(err.Error(), "has 104857601 bytes, the limit is 104857600") {
			t.Errorf("got %v", err)
		}
	}
}
