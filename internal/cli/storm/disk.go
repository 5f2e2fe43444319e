package storm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	diskBytes  = 192 << 20 // of the small disk: what a long run needs, twice
	ballast    = "ballast" // the file that takes all room
	chunkBytes = 256 << 10 // what it grows by
)

// prepareDisk puts the data directory on a small disk, if one is to be filled. undo gives the data back to the folder.
func (p *place) prepareDisk() (undo func(), err error) {
	if !p.fills() {
		return func() {}, nil
	}
	data := p.path("data")
	if err := mountSmall(data, diskBytes); err != nil {
		return nil, err
	}
	undo = func() {
		if err := p.takeHome(data); err != nil {
			fmt.Fprintf(p.Talk, "chaos: the small disk at %s: %v\n", data, err)
		}
	}
	if err := p.makeToken(); err != nil { // the folder's own is hidden now
		undo()
		return nil, err
	}
	return undo, nil
}

// takeHome copies the data to a real disk and takes the small one away.
func (p *place) takeHome(data string) error {
	kept := p.path("data.kept")
	root, err := os.OpenRoot(data)
	if err != nil {
		return err
	}
	err = copyFiles(kept, root.FS())
	return errors.Join(err, root.Close(), unmount(data), os.RemoveAll(data), os.Rename(kept, data))
}

// copyFiles copies folders and files, and leaves out what is neither.
func copyFiles(to string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(to+"/"+name, 0o700)
		case !entry.Type().IsRegular() || name == ballast:
			return nil
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return os.WriteFile(to+"/"+name, text, 0o600)
	})
}

// fill leaves no room on the small disk.
func (p *place) fill() error {
	file, err := os.Create(p.path("data/" + ballast))
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	defer file.Close()
	for size := chunkBytes; size > 0; { // at last byte by byte
		if _, err = file.Write(make([]byte, size)); err != nil {
			size /= 16
		}
	}
	if !isFull(err) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return nil
}

// free gives the room back.
func (p *place) free() error {
	if err := os.Remove(p.path("data/" + ballast)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("free the disk: %w", err)
	}
	return nil
}
