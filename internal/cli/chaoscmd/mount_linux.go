package chaoscmd

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// mountError says why the fault disk is not possible; empty: it may be.
func mountError() string {
	if os.Geteuid() != 0 {
		return "it mounts a small disk, which needs root"
	}
	return ""
}

func mountSmall(dir string, bytes int) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		return fmt.Errorf("mount a small disk for the fault disk: %w; remove disk from --faults", err)
	}
	return nil
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// isFull reports whether a write failed because the disk is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
