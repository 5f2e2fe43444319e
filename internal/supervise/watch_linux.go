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

// How often a watch measures. The pause after a measurement lasts many times as long as it took, so
// that a large workspace costs at most a twentieth of a processor, and the process table of a busy
// machine a fiftieth. A tree that makes the measurement itself slow is still measured twice a
// second.
const (
	watchInterval  = 100 * time.Millisecond
	slowInterval   = 500 * time.Millisecond
	watchIdleTimes = 50
	diskInterval   = time.Second
	diskIdleTimes  = 20
)

// watch enforces the limits that setrlimit cannot: those of the whole tree, and those of root. Its
// measurements are some tenths of a second old, so a limit may be exceeded for that long.
type watch struct {
	limits  sandbox.Limits
	folders []string
	due     time.Time
	sizes   chan int64 // growth of the folders in bytes; only the newest value is kept
}

func newWatch(o sandbox.Order) *watch {
	w := &watch{limits: o.Limits, folders: []string{string(o.Workspace), string(o.Scratch)}, sizes: make(chan int64, 1)}
	if w.limits.DiskBytes > 0 {
		go w.measure() // ends with this process: what it reads may hang, and nothing waits for it
	}
	return w
}

// exceeded says which limit the tree of s exceeds; empty: none.
func (w *watch) exceeded(s *supervisor, at time.Time) string {
	if w == nil || at.Before(w.due) {
		return ""
	}
	defer func() { w.due = at.Add(min(max(watchInterval, watchIdleTimes*time.Since(at)), slowInterval)) }()
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
	if used := memoryInUse(tree, w.limits.MemoryBytes); used > w.limits.MemoryBytes {
		return fmt.Sprintf("all processes together had %d bytes in memory, the limit is %d", used, w.limits.MemoryBytes)
	}
	return ""
}

// memoryInUse returns the memory that a tree has in use. It first adds up what is resident, which
// is cheap but counts shared pages once for each process, and files that the kernel can drop. Only
// if that exceeds the limit it measures exactly.
func memoryInUse(tree []process, limit int64) int64 {
	var resident, used int64
	for _, p := range tree {
		resident += residentBytes(p.pid)
	}
	if resident <= limit {
		return resident
	}
	for _, p := range tree {
		used += ownBytes(p.pid)
	}
	return used
}

// measure reports the growth of the folders since the command started.
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
		case <-w.sizes: // the last value was not read
		default:
		}
		w.sizes <- size - first
		pauseFor(max(diskInterval, diskIdleTimes*time.Since(began)))
	}
}

func pauseFor(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// allocatedBytes returns the disk space of the files below a folder. Files that are removed
// meanwhile may or may not count.
func allocatedBytes(folder string) int64 {
	const block = 512 // the unit of st_blocks on every file system
	var sum int64
	_ = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed, or not readable
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

// residentBytes returns the resident memory of a process, shared pages included; zero if it has
// ended.
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

// ownBytes returns the memory of a process that only its end or swap space can free: anonymous and
// shared memory, with its share of what several processes have. Where the kernel does not say, it
// is what is resident.
func ownBytes(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return residentBytes(pid)
	}
	var sum int64
	found := false
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		const kibibyte, words = 1 << 10, 3 // as "Pss_Anon:  1234 kB"
		if len(f) != words {
			continue
		}
		switch string(f[0]) {
		case "Pss_Anon:", "Pss_Shmem:", "SwapPss:":
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			if err != nil {
				continue
			}
			sum, found = sum+n*kibibyte, true
		}
	}
	if !found { // before Linux 5.3
		return residentBytes(pid)
	}
	return sum
}
