package supervise

import (
	"os"
	"slices"
	"testing"
)

// TestParentsFirst: the descendants of a process follow it, the older ones first. A process whose
// parent has gone is at the top.
func TestParentsFirst(t *testing.T) {
	t.Parallel()
	tree := []process{
		{pid: 9, parent: 3, start: 4}, {pid: 3, parent: 1, start: 1}, {pid: 5, parent: 9, start: 6},
		{pid: 4, parent: 3, start: 3}, {pid: 8, parent: 77, start: 2}, {pid: 6, parent: 4, start: 5},
	}

	var got []int
	for _, p := range parentsFirst(tree) {
		got = append(got, p.pid)
	}

	if want := []int{3, 4, 6, 9, 5, 8}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestInspectReusedPID: another process that has the pid by now is not shown as this one (RC20).
func TestInspectReusedPID(t *testing.T) {
	t.Parallel()
	self, ok := readProcess(os.Getpid())
	if !ok {
		t.Fatal("this process is not in the process table")
	}
	earlier := self
	earlier.start--

	if shown, ok := self.inspect(Record{}); !ok || shown.PID != self.pid || shown.CommandLine == "" {
		t.Errorf("got %+v, %t, want this process", shown, ok)
	}
	if shown, ok := earlier.inspect(Record{}); ok {
		t.Errorf("got %+v, want nothing of a process that has ended", shown)
	}
}
