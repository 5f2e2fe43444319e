//go:build darwin || linux

package app

import "syscall"

// freeBytes returns how much this user can still write to the disk of a folder.
func freeBytes(dir string) (uint64, error) {
	var found syscall.Statfs_t
	if err := syscall.Statfs(dir, &found); err != nil {
		return 0, err
	}
	return found.Bavail * uint64(found.Bsize), nil
}
