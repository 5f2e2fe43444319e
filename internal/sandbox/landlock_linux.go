package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// What each profile needs of Landlock. Version 3 (Linux 6.2) is the first that also keeps files from being truncated;
// version 6 (Linux 6.12) the first that keeps signals and abstract sockets, which namespaces keep as well.
const (
	leastForFiles   = 3
	leastForSignals = 6
)

// The rights that are bounded at all, and those that are given. Nobody may make a device, anywhere.
const (
	bounded landlock.AccessFSSet = ll.AccessFSIoctlDev<<1 - 1
	reading landlock.AccessFSSet = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	writing landlock.AccessFSSet = reading | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym |
		ll.AccessFSMakeFifo | ll.AccessFSMakeSock
	ofFile landlock.AccessFSSet = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	device landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	scopes landlock.ScopedSet   = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
)

// landlockVersion is what the kernel has, zero for none.
func landlockVersion() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// landlockFor says what is missing of Landlock for a profile.
func landlockFor(p Profile) error {
	least, need := leastForSignals, "Landlock 6 (Linux 6.12), which keeps signals and abstract sockets inside"
	if p == Isolated {
		least, need = leastForFiles, "Landlock 3 (Linux 6.2), which keeps files from being truncated"
	}
	switch v := landlockVersion(); {
	case v == 0:
		return fmt.Errorf("it needs %s, and this kernel has no Landlock (it is not built in, or lsm= leaves it out)", need)
	case v < least:
		return fmt.Errorf("it needs %s, and this kernel has Landlock %d", need, v)
	}
	return nil
}

// landlocked bounds this process for good, and says how. Where the profile needs more than there is, it bounds what can
// be bounded only if the order is Unsafe.
func landlocked(o Order) (string, error) {
	if err := landlockFor(o.Profile); err != nil && (!o.Unsafe || landlockVersion() == 0) {
		return "", err
	}
	config, err := landlock.NewConfig(bounded, scopes)
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

// rulesOf lists what is there of what may be read and written. In a view of its own everything that is there may be read.
func rulesOf(o Order) ([]landlock.Rule, error) {
	reads := append(systemPaths(), "/proc", "/sys/devices/system/cpu")
	writes := []string{string(o.Workspace), string(o.Scratch)}
	if o.Profile == Isolated {
		reads = []string{"/"}
		writes = append(writes, "/tmp", "/dev/shm")
	}
	var rules []landlock.Rule
	for path, rights := range rightsOn(append(reads, o.Reads...), writes) {
		switch st, err := os.Stat(path); {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
			continue
		case err != nil:
			return nil, err
		case !st.IsDir():
			rights &= ofFile
		}
		rules = append(rules, landlock.PathAccess(rights, path))
	}
	return rules, nil
}

func rightsOn(reads, writes []string) map[string]landlock.AccessFSSet {
	rights := map[string]landlock.AccessFSSet{}
	for _, path := range reads {
		rights[path] |= reading
	}
	for _, path := range devices() {
		rights[path] |= device
	}
	for _, path := range writes {
		rights[path] |= writing
	}
	return rights
}
