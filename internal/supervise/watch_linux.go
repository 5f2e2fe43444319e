package supervise

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/perdure/perdure/internal/sandbox"
)

// How often a watch counts. The disk is measured again when twenty times the length of the last measure has passed, so
// that a large workspace costs a twentieth of a processor at most.
const (
	watchLook     = 100 * time.Millisecond
	diskLook      = time.Second
	diskIdleTimes = 20
)

// watch looks after limits that no setrlimit keeps: of the whole tree, and for root. What it finds is some tenths of a
// second old, so a limit may be passed for that long.
type watch struct {
	limits  sandbox.Limits
	folders []string
	due     time.Time
	sizes   chan int64 // growth of the folders in bytes; the newest alone is kept
}

func newWatch(o sandbox.Order) *watch {
	w := &watch{limits: o.Limits, folders: []string{string(o.Workspace), string(o.Scratch)}, sizes: make(chan int64, 1)}
	if w.limits.DiskBytes > 0 {
		go w.measure() // ends with this process: what it reads may hang, and nobody waits for it
	}
	return w
}

// exceeded says which limit the tree of s is beyond, or nothing.
func (w *watch) exceeded(s *supervisor, at time.Time) string {
	if w == nil || at.Before(w.due) {
		return ""
	}
	w.due = at.Add(watchLook)
	select {
	case grown := <-w.sizes:
		if grown > w.limits.DiskBytes {
			return fmt.Sprintf("workspace and scratch folder grew by %d bytes, the limit is %d", grown, w.limits.DiskBytes)
		}
	default:
	}
	if w.limits.Processes == 0 && w.limits.MemoryBytes == 0 {
		return ""
	}
	tree := s.tree()
	if n := len(tree); w.limits.Processes > 0 && n > w.limits.Processes {
		return fmt.Sprintf("there were %d processes, the limit is %d", n, w.limits.Processes)
	}
	if w.limits.MemoryBytes == 0 {
		return ""
	}
	var resident int64
	for _, p := range tree {
		resident += residentBytes(p.pid)
	}
	if resident > w.limits.MemoryBytes {
		return fmt.Sprintf("all processes together had %d bytes in memory, the limit is %d", resident, w.limits.MemoryBytes)
	}
	return ""
}

// measure reports by how much the folders have grown since it began, which is when the command did.
func (w *watch) measure() {
	first := int64(-1)
	for {
		began := time.Now()
		var size int64
		for _, folder := range w.folders {
			size += allocatedBytes(folder)
		}
		if first < 0 {
			first = size
		}
		select {
		case <-w.sizes: // nobody took the last one
		default:
		}
		w.sizes <- size - first
		pauseFor(max(diskLook, diskIdleTimes*time.Since(began)))
	}
}

func pauseFor(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// allocatedBytes is what the files under a folder take on their disk. Files that go meanwhile count or not.
func allocatedBytes(folder string) int64 {
	const block = 512 // the unit of stat, whatever the file system's is
	var sum int64
	_ = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone, or not ours to see
		}
		if st, err := e.Info(); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				sum += sys.Blocks * block
			}
		}
		return nil
	})
	return sum
}

// residentBytes is what a process has in memory, shared pages included; zero when it is gone.
func residentBytes(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	const residentField = 1
	f := bytes.Fields(b)
	if len(f) <= residentField {
		return 0
	}
	pages, err := strconv.ParseInt(string(f[residentField]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
