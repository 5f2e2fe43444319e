//go:build darwin || linux

package sqlite

import "syscall"

// space returns the free bytes that this user may still write to the disk of a folder, and the size
// of the disk.
func space(dir string) (free, whole uint64, err error) {
	var found syscall.Statfs_t
	if err := syscall.Statfs(dir, &found); err != nil {
		return 0, 0, err
	}
	return found.Bavail * uint64(found.Bsize), found.Blocks * uint64(found.Bsize), nil
}
