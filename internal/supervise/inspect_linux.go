package supervise

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc: the kernel shows hundredths of a second on every
// architecture that Go supports.
const clockTick = 10 * time.Millisecond

// addTree adds the running processes of the run. Those of a dead supervisor are shown as far as
// they provably belong to the command.
func (n *Inspection) addTree() error {
	all, err := processes()
	if err != nil {
		return err
	}
	rec, tree := n.Record, provedProcesses(all, n.Record)
	if n.Remains == Alive {
		below := descendants(all, map[int]bool{rec.PID: true})
		for _, p := range all {
			switch {
			case p.pid == rec.PID:
				n.CPU += p.childTicks.duration() // of processes that the supervisor has reaped
			case below[p.pid] && !p.dead():
				tree = append(tree, p)
			}
		}
	}
	for _, p := range parentsFirst(tree) {
		n.CPU += (p.ticks + p.childTicks).duration()
		if len(n.Tree) == maxTree {
			n.Count++
		} else if shown, ok := p.inspect(rec); ok {
			n.Count++
			n.Tree = append(n.Tree, shown)
		}
	}
	return nil
}

// parentsFirst sorts a tree so that the descendants of a process follow it.
func parentsFirst(tree []process) []process {
	present := map[int]bool{}
	for _, p := range tree {
		present[p.pid] = true
	}
	// The youngest comes first, because the last of a stack is taken first.
	slices.SortFunc(tree, func(a, b process) int { return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(b.pid, a.pid)) })
	children, stack := map[int][]process{}, []process{}
	for _, p := range tree {
		if present[p.parent] {
			children[p.parent] = append(children[p.parent], p)
		} else {
			stack = append(stack, p)
		}
	}
	sorted := make([]process, 0, len(tree))
	for len(stack) > 0 {
		p := stack[len(stack)-1]
		sorted = append(sorted, p)
		stack = append(stack[:len(stack)-1], children[p.pid]...)
	}
	return sorted
}

// inspect reads what /proc has of a process. Not ok: the process has ended.
func (p process) inspect(rec Record) (TreeProcess, bool) {
	dir := "/proc/" + strconv.Itoa(p.pid)
	shown := TreeProcess{
		PID: p.pid, Parent: p.parent, Group: p.group, State: p.state, Threads: p.threads,
		StartedAt:   rec.StartedAt.Add(ticks(p.start).duration() - ticks(rec.StartTime).duration()),
		CommandLine: wholeCommandLine(dir), CPU: p.ticks.duration(),
	}
	shown.Dir, _ = os.Readlink(dir + "/cwd") // not readable if the command has changed its user
	status, _ := os.ReadFile(dir + "/status")
	shown.MemoryBytes, shown.PeakBytes = kibibytes(status, "VmRSS:"), kibibytes(status, "VmHWM:")
	return shown, processAlive(p.pid, p.start) // only now it is certain that all this is of the same process
}

// wholeCommandLine returns the complete command line of a process, or the name of its program. A
// process decides itself what its command line is, so no more than needed is read of it.
func wholeCommandLine(dir string) string {
	line, err := readAtMost(dir+"/cmdline", maxCommandLine+1)
	isWhole := err == nil && len(line) <= maxCommandLine
	if line = bytes.TrimRight(line, "\x00"); isWhole && len(line) > 0 {
		return strings.ReplaceAll(string(line), "\x00", " ")
	}
	name, _ := os.ReadFile(dir + "/comm") // empty if it has just ended
	return strings.TrimSpace(string(name))
}

func readAtMost(path string, bytes int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, bytes))
}

// kibibytes returns a field of /proc/PID/status in bytes; zero: it is absent.
func kibibytes(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == name {
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

// usage adds to an exit record what the command and everything that it started have used. The
// kernel says for the largest process only how much memory it had, and counts for each of them what
// this process had when it started it. So a smaller number is not known.
func (e *Exit) usage() {
	var own, all syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil || syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all) != nil {
		return
	}
	e.CPUMS = (all.Utime.Nano() + all.Stime.Nano()) / int64(time.Millisecond)
	if all.Maxrss > own.Maxrss {
		e.PeakBytes = all.Maxrss << 10
	}
}
