//go:build contact

package contact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// waitTime limits every wait for another process. Browsers and Node start slowly on a busy machine.
const waitTime = 2 * time.Minute

// npmFolder has package.json, and what npm installed of it.
const npmFolder = "testdata/npm"

// program returns the path of a program that make contact names in a variable.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set, so this test has no program to run: run make contact, which brings it", variable)
	}
	return path
}

func perdureProgram(t *testing.T) string { return program(t, "PERDURE_CONTACT_BINARY") }
func nodeProgram(t *testing.T) string    { return program(t, "PERDURE_CONTACT_NODE") }
func chromium(t *testing.T) string       { return program(t, "PERDURE_CONTACT_CHROMIUM") }

// module returns the folder of an installed npm package, and its version.
func module(t *testing.T, name string) (folder, version string) {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(npmFolder, "node_modules", name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		t.Fatalf("%v: run make contact, which installs it", err)
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return folder, about.Version
}

// home is a data directory and a work folder of one test. Its path is short, since it has sockets.
type home struct {
	t               *testing.T
	dir, data, work string
	env             []string
	recordings      atomic.Int64
}

func newHome(t *testing.T) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "pc")
	if err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, dir: dir, data: filepath.Join(dir, "data"), work: filepath.Join(dir, "work")}
	for _, folder := range []string{h.data, h.work, filepath.Join(dir, "home")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.env = []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=none"}
	t.Cleanup(func() {
		endProcesses(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return h
}

// next numbers the recordings of a home.
func (h *home) next() int64 { return h.recordings.Add(1) }

// write creates a file in the work folder, and returns its path.
func (h *home) write(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.work, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// server writes mcp.json with one server.
func (h *home) server(name string, entry map[string]any) {
	h.t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: entry}})
	if err == nil {
		err = os.WriteFile(filepath.Join(h.data, "mcp.json"), text, 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// output is what a command wrote, and how it ended.
type output struct {
	stdout, stderr string
	code           int // -1: it did not end in time
}

func (o output) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", o.code, o.stdout, o.stderr)
}

// perdure runs the program under test, and waits for its end.
func (h *home) perdure(args ...string) output {
	h.t.Helper()
	return h.start(args...)()
}

// start starts the program under test. The function that it returns waits for its end.
func (h *home) start(args ...string) (wait func() output) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), waitTime)
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, perdureProgram(h.t), append([]string{"--data", h.data}, args...)...)
	command.Env, command.Dir, command.Stdout, command.Stderr = h.env, h.work, &out, &errs
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		h.t.Fatal(err)
	}
	return func() output {
		defer cancel()
		_ = command.Wait() // the exit code says it
		return output{out.String(), errs.String(), command.ProcessState.ExitCode()}
	}
}

// callStates returns the state of every call of the last session.
func (h *home) callStates() (states []string) {
	h.t.Helper()
	listed := h.perdure("call", "list", "last", "-o", "json")
	var calls []struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(listed.stdout), &calls); err != nil {
		h.t.Errorf("call list: %v; %s", err, listed)
	}
	for _, c := range calls {
		states = append(states, c.State)
	}
	return states
}

// endProcesses kills what still runs with a folder of ours in its command line or its environment:
// servers, and the processes that keep them for a later proxy.
func endProcesses(t *testing.T, dir string) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		id, err := strconv.Atoi(filepath.Base(entry))
		if err != nil || id == os.Getpid() {
			continue
		}
		for _, name := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join(entry, name)) // it may have ended
			if err == nil && bytes.Contains(text, []byte(dir+"/")) {
				_ = syscall.Kill(id, syscall.SIGKILL) // likewise
			}
		}
	}
}
