//go:build contact

package contact

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// recordVariable makes this program a recorder: it runs the command of its arguments, passes all
// lines on, and appends them to this file.
const recordVariable = "PERDURE_CONTACT_RECORD"

func TestMain(m *testing.M) {
	if path := os.Getenv(recordVariable); path != "" {
		os.Exit(record(path, os.Args[1:]))
	}
	code := m.Run()
	if err := writeTable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// line is what a recorder appends for each line that passed.
type line struct {
	From string `json:"from"` // client, server, or recorder
	Text string `json:"text"`
}

// The sides of a recorded line. A recorder notes its own process id, and each answer that it holds
// back.
const (
	fromClient   = "client"
	fromServer   = "server"
	fromRecorder = "recorder"
)

// holdFile returns the file that makes a recorder hold back the answers of calls while it exists.
// All other lines pass.
func holdFile(path string) string { return path + ".hold" }

// record runs a server between its standard streams and ours, and returns its exit code.
func record(path string, command []string) int {
	log := &recordLog{path: path}
	log.add(fromRecorder, strconv.Itoa(os.Getpid()))
	server := exec.Command(command[0], command[1:]...)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return log.fail(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return log.fail(err)
	}
	if err := server.Start(); err != nil {
		return log.fail(err)
	}
	calls := &pendingCalls{}
	go func() { // until our input ends; the server then reads the end of its own
		eachLine(os.Stdin, func(text []byte) {
			calls.note(text)
			log.add(fromClient, string(text))
			_, _ = in.Write(text) // a server that ended is reported by its output
		})
		_ = in.Close()
	}()
	var held sync.WaitGroup
	var writing sync.Mutex
	pass := func(text []byte) {
		writing.Lock()
		defer writing.Unlock()
		_, _ = os.Stdout.Write(text) // a client that ended closes our input
	}
	eachLine(out, func(text []byte) {
		log.add(fromServer, string(text))
		if !calls.answers(text) || !exists(holdFile(path)) {
			pass(text)
			return
		}
		held.Go(func() {
			log.add(fromRecorder, "held")
			for exists(holdFile(path)) {
				<-time.After(10 * time.Millisecond)
			}
			pass(text)
		})
	})
	held.Wait()
	err = server.Wait()
	var exited *exec.ExitError
	if errors.As(err, &exited) && exited.ExitCode() > 0 {
		return exited.ExitCode()
	}
	if err != nil {
		return log.fail(err)
	}
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// eachLine calls do with each line of a stream, with its end.
func eachLine(from io.Reader, do func([]byte)) {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			do(text)
		}
		if err != nil {
			return
		}
	}
}

// pendingCalls are the tool calls that passed. Safe for concurrent use.
type pendingCalls struct {
	mu  sync.Mutex
	ids map[string]bool // guarded by mu
}

// note remembers the id of a tool call.
func (c *pendingCalls) note(text []byte) {
	m := messageOf(string(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Method == "tools/call" && len(m.ID) > 0 {
		if c.ids == nil {
			c.ids = map[string]bool{}
		}
		c.ids[string(m.ID)] = true
	}
}

// answers reports whether a line answers one of them.
func (c *pendingCalls) answers(text []byte) bool {
	m := messageOf(string(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.Method == "" && c.ids[string(m.ID)]
}

// recordLog appends lines to a file. Safe for concurrent use, also by several processes.
type recordLog struct{ path string }

func (l *recordLog) add(from, text string) {
	entry, err := json.Marshal(line{from, strings.TrimRight(text, "\r\n")})
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, err = f.Write(append(entry, '\n')) // one write, so that lines stay whole
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
	}
}

func (l *recordLog) fail(err error) int {
	l.add(fromRecorder, "failed: "+err.Error())
	fmt.Fprintln(os.Stderr, "record:", err)
	return 1
}

// recording is the log of a recorder, as a test reads it.
type recording struct {
	t    *testing.T
	path string
}

func newRecording(t *testing.T, h *home) *recording {
	t.Helper()
	return &recording{t, filepath.Join(h.dir, fmt.Sprintf("wire-%d", h.next()))}
}

// command returns a command that runs another one with a recorder in front, and its environment.
func (r *recording) command(words []string) ([]string, map[string]string) {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	return append([]string{self}, words...), map[string]string{recordVariable: r.path}
}

// lines returns what passed so far.
func (r *recording) lines() []line {
	r.t.Helper()
	text, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	var all []line
	for entry := range strings.Lines(string(text)) {
		var l line
		if json.Unmarshal([]byte(entry), &l) == nil { // the last one may be incomplete
			all = append(all, l)
		}
	}
	return all
}

// await waits until a line of a side is found.
func (r *recording) await(what string, found func(line) bool) {
	r.t.Helper()
	for limit := time.Now().Add(waitTime); time.Now().Before(limit); <-time.After(10 * time.Millisecond) {
		for _, l := range r.lines() {
			if found(l) {
				return
			}
		}
	}
	r.t.Fatalf("%s did not happen within %s", what, waitTime)
}

// hold makes the recorder hold back the answers of calls.
func (r *recording) hold() {
	r.t.Helper()
	if err := os.WriteFile(holdFile(r.path), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// release passes on what is held.
func (r *recording) release() {
	if err := os.Remove(holdFile(r.path)); err != nil {
		r.t.Error(err)
	}
}

// kill is kill -9 of the last server, with its recorder.
func (r *recording) kill() {
	r.t.Helper()
	id := 0
	for _, l := range r.lines() {
		if n, err := strconv.Atoi(l.Text); l.From == fromRecorder && err == nil {
			id = n
		}
	}
	if id == 0 {
		r.t.Fatal("no recorder runs")
	}
	if err := syscall.Kill(-id, syscall.SIGKILL); err != nil { // each server has a process group of its own
		r.t.Fatal(err)
	}
}

// calls returns how often a tool was called.
func (r *recording) calls(tool string) (n int) {
	r.t.Helper()
	for _, l := range r.lines() {
		if m := messageOf(l.Text); l.From == fromClient && m.Method == "tools/call" && m.Params.Name == tool {
			n++
		}
	}
	return n
}
