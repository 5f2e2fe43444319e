package chaos

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SurvivingProcesses returns the processes that belong to a run although all its work has ended
// (I13): their arguments or environment contain the folder of a data directory's runs, or they work
// in the folder work. The servers and this process do not count.
func SurvivingProcesses(work string, dataDirs []string, servers []int) []Violation {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []Violation{{Invariant: "I13", Text: fmt.Sprintf("cannot list the processes: %v", err)}}
	}
	var left []Violation
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || slices.Contains(servers, pid) {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline")) // it may have just ended
		environ, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		ours := slices.ContainsFunc(dataDirs, func(dir string) bool {
			runs := []byte(filepath.Join(dir, "runs"))
			return bytes.Contains(environ, runs) || bytes.Contains(args, runs)
		})
		if ours || workDir(pid) == work {
			words := strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
			left = append(left, Violation{Invariant: "I13",
				Text: fmt.Sprintf("process %d is still running after all work: %.200s", pid, words)})
		}
	}
	return left
}

// workDir returns the working directory of a process; empty: unknown.
func workDir(pid int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return ""
	}
	return name
}
