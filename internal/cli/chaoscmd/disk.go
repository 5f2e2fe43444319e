package chaoscmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	diskBytes  = 192 << 20 // size of the small disk: twice what a long run needs
	fillFile   = "ballast" // the file that fills the disk
	chunkBytes = 256 << 10 // its initial growth per write
)

// prepareDisk mounts the data directory on a small disk, if the fault disk is enabled. undo copies
// the data back to the folder.
func (p *runDir) prepareDisk() (undo func(), err error) {
	if !p.canFillDisk() {
		return func() {}, nil
	}
	data := p.path("data")
	if err := mountSmall(data, diskBytes); err != nil {
		return nil, err
	}
	undo = func() {
		if err := p.copyBack(data); err != nil {
			fmt.Fprintf(p.Stderr, "chaos: restore the small disk at %s: %v\n", data, err)
		}
	}
	if err := p.writeToken(p.servers[0]); err != nil { // the mount hides the token of the folder
		undo()
		return nil, err
	}
	return undo, nil
}

// copyBack copies the data to the real disk and unmounts the small one.
func (p *runDir) copyBack(data string) error {
	kept := p.path("data.kept")
	root, err := os.OpenRoot(data)
	if err != nil {
		return err
	}
	err = copyFiles(kept, root.FS())
	return errors.Join(err, root.Close(), unmount(data), os.RemoveAll(data), os.Rename(kept, data))
}

// copyFiles copies folders and regular files only.
func copyFiles(to string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(to+"/"+name, 0o700)
		case !entry.Type().IsRegular() || name == fillFile:
			return nil
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return os.WriteFile(to+"/"+name, text, 0o600)
	})
}

// fill fills the small disk completely.
func (p *runDir) fill() error {
	file, err := os.Create(p.path("data/" + fillFile))
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

// free frees the disk.
func (p *runDir) free() error {
	if err := os.Remove(p.path("data/" + fillFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("free the disk: %w", err)
	}
	return nil
}
