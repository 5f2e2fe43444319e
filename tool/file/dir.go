package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// runtimeDir is written only by the runtime (FI7).
const runtimeDir = "/.background"

// tempPrefix is the name prefix of temporary files of writes in progress. They are hidden.
const tempPrefix = ".perdure-write-"

// Dir keeps a session's files in a folder of the host (FI9). It reaches nothing outside: links are
// followed only within the folder, and only regular files are opened. A file without write
// permission is read-only. The creation time is that of the last change, because hosts do not
// report the other one.
//
// Safe for concurrent use. Changes, including compare-and-set, are atomic among all Dirs on the
// folder, in this process and in others, because they lock the folder. Programs that do not use
// this lock, such as commands in the folder, are not locked out.
type Dir struct {
	root    *os.Root
	folder  *os.File        // for the lock; shared with the views
	escapes error           // the error of os.Root for a path that leads outside
	mu      *sync.Mutex     // serialises changes; shared with the views
	runtime bool            // may write below runtimeDir, and beyond the quota
	counts  bool            // the limits also apply to the folder as a whole
	limits  tool.FileLimits //
}

var (
	_ tool.Files  = (*Dir)(nil)
	_ tool.Seeder = (*Dir)(nil)
)

// OpenDir opens an existing folder of the host. The caller must close it.
func OpenDir(folder string) (*Dir, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", folder, err)
	}
	d := &Dir{root: root, mu: &sync.Mutex{}}
	if d.folder, err = d.openDirectory("/"); err != nil {
		return nil, errors.Join(fmt.Errorf("open folder %s: %w", folder, err), root.Close())
	}
	var out *fs.PathError
	if _, err := root.Lstat(".."); errors.As(err, &out) {
		d.escapes = out.Err
	}
	return d, nil
}

// Close closes the folder and all its views.
func (d *Dir) Close() error { return errors.Join(d.folder.Close(), d.root.Close()) }

// Limit returns a view of the folder with limits for each file and for the folder as a whole. A Dir
// without them limits only the size of a file: a workspace belongs to its owner, and may contain
// more than a session is allowed to. With limits, each write walks through the folder.
func (d *Dir) Limit(l tool.FileLimits) *Dir {
	view := *d
	view.limits, view.counts = l, true
	return &view
}

// lock locks the folder for a change. The caller must call unlock.
func (d *Dir) lock(ctx context.Context) (unlock func(), err error) {
	d.mu.Lock()
	if err := lockFolder(ctx, d.folder); err != nil {
		d.mu.Unlock()
		return nil, err
	}
	return func() {
		unlockFolder(d.folder)
		d.mu.Unlock()
	}, nil
}

// Runtime returns a view of the folder that may also write below /.background, which the model may
// only read (FI7). It is for the runtime.
func (d *Dir) Runtime() tool.Files {
	view := *d
	view.runtime = true
	return &view
}

// Stat describes a file or directory.
func (d *Dir) Stat(ctx context.Context, name string) (tool.FileStat, error) {
	name, err := d.readable(ctx, name)
	if err != nil {
		return tool.FileStat{}, err
	}
	found, err := d.root.Stat(local(name))
	if err != nil {
		return tool.FileStat{}, d.explain(err, name)
	}
	switch {
	case !found.IsDir() && !found.Mode().IsRegular():
		return tool.FileStat{}, irregular(name)
	case d.misspelled(name, found):
		return tool.FileStat{}, notFound(name)
	}
	return describe(name, found), nil
}

// Read returns a file with its content.
func (d *Dir) Read(ctx context.Context, name string) (tool.File, error) {
	name, err := d.readable(ctx, name)
	if err != nil {
		return tool.File{}, err
	}
	return d.read(name)
}

// read checks the file type twice: before opening, so that no device is touched, and after it,
// because the name may refer to another file by then. It does not block on a FIFO.
func (d *Dir) read(name string) (tool.File, error) {
	if found, err := d.root.Stat(local(name)); err == nil && !found.IsDir() && !found.Mode().IsRegular() {
		return tool.File{}, irregular(name)
	}
	f, err := d.root.OpenFile(local(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return tool.File{}, d.explain(err, name)
	}
	defer f.Close()
	found, err := f.Stat()
	switch {
	case err != nil:
		return tool.File{}, d.explain(err, name)
	case found.IsDir():
		return tool.File{}, isDirectory(name)
	case !found.Mode().IsRegular():
		return tool.File{}, irregular(name)
	case d.misspelled(name, found):
		return tool.File{}, notFound(name)
	}
	if err := d.limits.CheckFile(name, found.Size()); err != nil {
		return tool.File{}, err
	}
	content, err := io.ReadAll(io.LimitReader(f, d.limits.OneFile()+1))
	if err != nil {
		return tool.File{}, d.explain(err, name)
	}
	if err := d.limits.CheckFile(name, int64(len(content))); err != nil { // it has grown
		return tool.File{}, err
	}
	stat := describe(name, found)
	stat.SizeBytes = int64(len(content))
	return tool.File{FileStat: stat, Content: content}, nil
}

// List returns the entries of a directory, sorted by name; with deep, everything below it, sorted
// by path. It leaves out what is neither file nor directory, lies outside, or has a name that is
// not a valid path (FI1). Directories behind links are not entered.
func (d *Dir) List(ctx context.Context, name string, deep bool) ([]tool.FileStat, error) {
	name, err := d.readable(ctx, name)
	if err != nil {
		return nil, err
	}
	if found, err := d.root.Stat(local(name)); err == nil && d.misspelled(name, found) {
		return nil, noDirectory(name)
	}
	stats, err := d.list(ctx, name, deep)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(stats, func(a, b tool.FileStat) int { return strings.Compare(a.Path, b.Path) })
	return stats, nil
}

func (d *Dir) list(ctx context.Context, name string, deep bool) ([]tool.FileStat, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	entries, err := d.entries(name)
	if err != nil {
		return nil, err
	}
	var stats []tool.FileStat
	for _, entry := range entries {
		below := path.Join(name, entry.Name())
		if clean, err := tool.CleanPath(below); err != nil || clean != below {
			continue
		}
		found, err := d.root.Stat(local(below))
		if err != nil || !found.IsDir() && !found.Mode().IsRegular() {
			continue
		}
		stats = append(stats, describe(below, found))
		if deep && entry.IsDir() { // type of the entry itself: a link is not a directory
			more, err := d.list(ctx, below, deep)
			if err != nil && !errors.Is(err, perdure.NotFound) { // deleted in the meantime
				return nil, err
			}
			stats = append(stats, more...)
		}
	}
	return stats, nil
}

// entries reads a directory, without temporary files.
func (d *Dir) entries(name string) ([]fs.DirEntry, error) {
	f, err := d.openDirectory(name)
	if err != nil {
		return nil, d.explainDirectory(err, name)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, d.explainDirectory(err, name)
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), tempPrefix) }), nil
}

func (d *Dir) openDirectory(name string) (*os.File, error) {
	return d.root.OpenFile(local(name), openDirectory, 0)
}

// readable normalises a path for reading.
func (d *Dir) readable(ctx context.Context, name string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return tool.CleanPath(name)
}

// local returns the path relative to the root, and "." for the folder itself.
func local(name string) string {
	if name == "/" {
		return "."
	}
	return name[1:]
}

func describe(name string, found fs.FileInfo) tool.FileStat {
	stat := tool.FileStat{
		Path: name, Name: path.Base(name), IsDirectory: found.IsDir(),
		CreatedAt: found.ModTime().UTC(), UpdatedAt: found.ModTime().UTC(),
	}
	if !stat.IsDirectory {
		stat.SizeBytes, stat.IsReadOnly = found.Size(), readOnly(found)
	}
	return stat
}

// readOnly reports whether the mode of a file forbids writing. The mode is checked instead of
// access, because the superuser may always write.
func readOnly(found fs.FileInfo) bool {
	return found.Mode().IsRegular() && found.Mode().Perm()&0o222 == 0
}
