package storm

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// noDisk says why the fault disk is not possible; empty: it may be.
func noDisk() string {
	if os.Geteuid() != 0 {
		return "a small disk is mounted for it, and that needs root"
	}
	return ""
}

func mountSmall(dir string, bytes int) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		return fmt.Errorf("mount a small disk for the fault disk: %w; leave disk out of --faults", err)
	}
	return nil
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// isFull reports whether a write failed for want of room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
