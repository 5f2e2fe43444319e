package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// The Landlock versions that the profiles need. Version 3 (Linux 6.2) is the first that can prevent
// files from being truncated; version 6 (Linux 6.12) the first that restricts signals and abstract
// sockets, which namespaces also do.
const (
	minLandlockForFiles   = 3
	minLandlockForSignals = 6
)

// The rights that are restricted, and those that are granted. Creating a device is never granted.
const (
	restrictedRights landlock.AccessFSSet = ll.AccessFSIoctlDev<<1 - 1
	readRights       landlock.AccessFSSet = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	writeRights      landlock.AccessFSSet = readRights | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym |
		ll.AccessFSMakeFifo | ll.AccessFSMakeSock
	fileRights   landlock.AccessFSSet = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	deviceRights landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	scopes       landlock.ScopedSet   = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
)

// landlockVersion returns the kernel's Landlock version; zero: none.
func landlockVersion() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// landlockFor returns what the kernel's Landlock lacks for a profile.
func landlockFor(p Profile) error {
	minVersion, need := minLandlockForSignals, "Landlock 6 (Linux 6.12), which restricts signals and abstract sockets"
	if p == Isolated {
		minVersion, need = minLandlockForFiles, "Landlock 3 (Linux 6.2), which restricts the truncation of files"
	}
	switch v := landlockVersion(); {
	case v == 0:
		return fmt.Errorf("the profile needs %s, and this kernel has no Landlock (not built in, or disabled by lsm=)", need)
	case v < minVersion:
		return fmt.Errorf("the profile needs %s, and this kernel has Landlock %d", need, v)
	}
	return nil
}

// applyLandlock restricts this process irrevocably, and returns in words how. If the profile needs
// a newer Landlock, it restricts what it can only if the order is Unsafe.
func applyLandlock(o Order) (string, error) {
	if err := landlockFor(o.Profile); err != nil && (!o.Unsafe || landlockVersion() == 0) {
		return "", err
	}
	config, err := landlock.NewConfig(restrictedRights, scopes)
	if err != nil {
		return "", err
	}
	rules, err := rulesOf(o)
	if err != nil {
		return "", err
	}
	if err := config.BestEffort().Restrict(rules...); err != nil {
		return "", err
	}
	return fmt.Sprintf("Landlock %d", landlockVersion()), nil
}

// rulesOf lists the existing paths that may be read and written. In a view everything may be read,
// since the view contains nothing else.
func rulesOf(o Order) ([]landlock.Rule, error) {
	reads := append(systemPaths(), "/proc", processorPath)
	writes := []string{string(o.Workspace), homeOf(string(o.Scratch))}
	if o.HasView() {
		reads = []string{"/"}
		writes = append(writes, "/dev/shm")
		writes = append(writes, temporaryPaths()...)
	} else {
		writes = append(writes, temporaryOf(string(o.Scratch)))
	}
	var rules []landlock.Rule
	all := rightsOn(append(reads, o.Reads...), writes)
	if o.HasView() {
		all[terminalPath] |= deviceRights
	}
	for path, rights := range all {
		switch st, err := os.Stat(path); {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
			continue
		case err != nil:
			return nil, err
		case !st.IsDir():
			rights &= fileRights
		}
		rules = append(rules, landlock.PathAccess(rights, path))
	}
	return rules, nil
}

func rightsOn(reads, writes []string) map[string]landlock.AccessFSSet {
	rights := map[string]landlock.AccessFSSet{}
	for _, path := range reads {
		rights[path] |= readRights
	}
	for _, path := range devices() {
		rights[path] |= deviceRights
	}
	for _, path := range writes {
		rights[path] |= writeRights
	}
	return rights
}
