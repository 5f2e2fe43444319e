package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// release builds the release version of the program once: without the race detector, since these
// tests are about what it does to its files.
var release = sync.OnceValues(func() (string, error) {
	beside, err := exec.LookPath("perdure")
	if err != nil {
		return "", err
	}
	program := filepath.Join(filepath.Dir(beside), "perdure-release")
	build := exec.Command("go", "build", "-o", program, "../../cmd/perdure")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return program, nil
})

// tracing returns why system calls cannot be traced here, or nil. It reports the reason once.
var tracing = sync.OnceValue(func() error {
	out, err := exec.Command("strace", "-f", "-qq", "-e", "inject=fsync:error=EIO", "-e", "trace=fsync", "-o", os.DevNull, "true").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return err
})

// needTracing skips the test if strace is not allowed to trace.
func needTracing(t *testing.T, row string) {
	t.Helper()
	if err := tracing(); err != nil {
		t.Skipf("%s: faults of system calls need strace, and the right to trace: %v", row, err)
	}
}

// machine is a data directory with one server, of the release build, that may run under strace.
// Clients use the socket, and get no response when the server has ended.
type machine struct {
	place
	program string
	http    *http.Client
	server  *exec.Cmd
	talk    *os.File // stderr of the servers
	ended   chan struct{}
	told    heard
	charge  int // number of turns between two effects that count; 0: none
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	program, err := release()
	if err != nil {
		t.Fatal(err)
	}
	return newMachineIn(t, program, filepath.Join(t.TempDir(), "data"))
}

// newMachineIn makes a machine with the given data directory.
func newMachineIn(t *testing.T, program, data string) *machine {
	t.Helper()
	talk, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{place: newPlace(t, nil), program: program, talk: talk}
	m.data = data
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(m.data, socketFile))
	}
	m.http = &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: waitTime}
	t.Cleanup(func() {
		m.http.CloseIdleConnections()
		if m.server != nil {
			_ = syscall.Kill(-m.server.Process.Pid, syscall.SIGKILL) // the group: strace and the process that it traces
			<-m.ended
		}
		killCommands(m.data)
		said, _ := os.ReadFile(talk.Name())
		_ = talk.Close()
		if t.Failed() {
			t.Logf("the servers said:\n%.4000s", complaints(said))
		}
	})
	return m
}

// start starts a server, optionally under a command, and reports whether it got ready.
func (m *machine) start(under ...string) bool {
	m.t.Helper()
	args := append(slices.Clone(under), m.program, "serve", "--allow-shell", "--addr", "127.0.0.1:0")
	m.server = exec.Command(args[0], args[1:]...)
	m.server.Env = append(os.Environ(), "PERDURE_DATA="+m.data)
	m.server.Stderr = m.talk
	m.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := m.server.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.server.Start(); err != nil {
		m.t.Fatal(err)
	}
	printed, server, ended := make(chan bool, 1), m.server, make(chan struct{}) // capacity 1: the reader may be gone
	m.ended = ended
	go func() {
		first := make([]byte, 4)
		_, err := io.ReadFull(out, first)
		printed <- err == nil && string(first) == "http"
		_, _ = io.Copy(io.Discard, out)
		_ = server.Wait() // the result is read from ProcessState
		close(ended)
	}()
	select {
	case serves := <-printed:
		return serves
	case <-time.After(waitTime):
		m.t.Fatalf("the server says nothing for %s", waitTime)
	}
	return false
}

// exits waits for the end of the server and returns its exit code.
func (m *machine) exits() int {
	m.t.Helper()
	select {
	case <-m.ended:
	case <-time.After(waitTime):
		m.t.Fatalf("the server has not ended within %s", waitTime)
	}
	code := m.server.ProcessState.ExitCode()
	m.server = nil
	return code
}

// stop ends the server like an operator, which is not an error.
func (m *machine) stop() {
	m.t.Helper()
	if err := syscall.Kill(m.holder(), syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	if code := m.exits(); code != 0 && code != exitInterrupted {
		m.t.Errorf("a server that was stopped: exit code %d", code)
	}
}

// kill ends the server like a crash of the process.
func (m *machine) kill() {
	m.t.Helper()
	if err := syscall.Kill(m.holder(), syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
	m.exits()
}

// exitInterrupted is the exit code of a stopped command.
const exitInterrupted = 130

// holder is the process that holds the data directory.
func (m *machine) holder() int {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.data, "lock"))
	var holder struct{ PID int }
	if err == nil {
		err = json.Unmarshal(text, &holder)
	}
	if err != nil || holder.PID < 2 {
		m.t.Fatalf("who holds %s: %q, %v", m.data, text, err)
	}
	return holder.PID
}

// heard is what clients received, all together.
type heard struct {
	mu       sync.Mutex
	sessions []perdure.SessionID          // guarded by mu; created sessions
	messages map[string]perdure.SessionID // guarded by mu; accepted messages, by id
	events   map[perdure.EventID]string   // guarded by mu; events that were read, with their bytes
	refused  int                          // guarded by mu; responses with 507
	late     []string                     // guarded by mu; acknowledgements of requests that began after a 507
	slowest  map[string]time.Duration     // guarded by mu; by kind of request
	problems []string                     // guarded by mu; invalid responses
}

func (m *machine) ask(method, path, key, body string) (reply, error) {
	m.told.mu.Lock()
	refused := m.told.refused > 0
	m.told.mu.Unlock()
	req, err := http.NewRequestWithContext(m.t.Context(), method, "http://perdure"+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.GetBody = nil // sent once: the transport must not repeat it
	}
	began := time.Now()
	resp, err := m.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	if !strings.Contains(path, "wait=") { // a waiting request takes as long as it takes
		m.told.note(method+" "+strconv.Itoa(resp.StatusCode), time.Since(began))
	}
	r := reply{status: resp.StatusCode, body: string(text), idle: resp.Header.Get("Perdure-Idle")}
	m.told.mu.Lock()
	defer m.told.mu.Unlock()
	switch {
	case r.status == http.StatusInsufficientStorage:
		m.told.refused++
		if kind := resp.Header.Get("Content-Type"); kind != "application/problem+json" || !strings.Contains(r.body, `"code":"storage"`) {
			m.told.problems = append(m.told.problems, fmt.Sprintf("507 %s %s", kind, r.body))
		}
	case method == http.MethodPost && refused && r.status < 300:
		m.told.late = append(m.told.late, path+" "+r.body)
	}
	return r, nil
}

func (t *heard) note(what string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slowest == nil {
		t.slowest = map[string]time.Duration{}
	}
	t.slowest[what] = max(t.slowest[what], took)
}

// begin starts a session.
func (m *machine) begin(model, key string) (perdure.SessionID, reply, error) {
	agent, err := json.Marshal(map[string]any{"agent": perdure.Agent{Model: model, Capabilities: []string{"bashkit_shell"}, Metadata: map[string]string{"workspace": m.work}}})
	if err != nil {
		return "", reply{}, err
	}
	r, err := m.ask(http.MethodPost, "/v1/sessions", key, string(agent))
	if err != nil || r.status != http.StatusCreated {
		return "", r, err
	}
	var s engine.Session
	r.into(m.t, &s)
	m.told.mu.Lock()
	defer m.told.mu.Unlock()
	m.told.sessions = append(m.told.sessions, s.ID)
	return s.ID, r, nil
}

// say sends a message.
func (m *machine) say(id perdure.SessionID, text string) (reply, error) {
	p := say(id, text, text)
	r, err := m.ask(http.MethodPost, p.path, string(id)+text[:min(len(text), 40)], p.body)
	if err != nil || r.status != http.StatusAccepted {
		return r, err
	}
	var answer struct {
		ID string `json:"message_id"`
	}
	r.into(m.t, &answer)
	m.told.mu.Lock()
	defer m.told.mu.Unlock()
	if m.told.messages == nil {
		m.told.messages = map[string]perdure.SessionID{}
	}
	m.told.messages[answer.ID] = id
	return r, nil
}

// rest waits until a session is idle, or no server responds.
func (m *machine) rest(id perdure.SessionID) error {
	for began := time.Now(); time.Since(began) < waitTime; {
		r, err := m.ask(http.MethodGet, "/v1/sessions/"+string(id)+"?wait=5s", "", "")
		if err != nil || r.idle == "true" {
			return err
		}
		if r.status != http.StatusOK {
			return fmt.Errorf("%d %s", r.status, r.body)
		}
	}
	return fmt.Errorf("%s is not at rest within %s", id, waitTime)
}

// journal reads a session's journal to its end, and records its events.
func (m *machine) journal(id perdure.SessionID) (chaos.Journal, error) {
	j := chaos.Journal{Session: id}
	for after := int64(0); ; {
		r, err := m.ask(http.MethodGet, fmt.Sprintf("/v1/sessions/%s/events?limit=200&after=%d", id, after), "", "")
		if err != nil || r.status != http.StatusOK {
			return j, fmt.Errorf("%d %s: %w", r.status, r.body, err)
		}
		var page struct {
			Items []json.RawMessage `json:"items"`
		}
		r.into(m.t, &page)
		for _, text := range page.Items {
			e, err := perdure.DecodeEvent(text)
			if err != nil {
				return j, err
			}
			m.hear(e.ID, string(text))
			j.Events, after = append(j.Events, e), e.Seq
		}
		if len(page.Items) < 200 {
			return j, nil
		}
	}
}

// hear records an event. It never changes (I1).
func (m *machine) hear(id perdure.EventID, text string) {
	m.told.mu.Lock()
	defer m.told.mu.Unlock()
	if m.told.events == nil {
		m.told.events = map[perdure.EventID]string{}
	}
	if before, was := m.told.events[id]; was && before != text {
		m.t.Errorf("I1: event %s was %s and is %s", id, before, text)
	}
	m.told.events[id] = text
}

// kept reads everything from a running server, waits until all sessions are idle, and compares it
// with what clients received and with the external ledger (I1 to I6).
func (m *machine) kept() chaos.Record {
	m.t.Helper()
	var record chaos.Record
	found := map[string]bool{}
	for _, id := range m.sessions() {
		j, err := m.journal(id)
		if err == nil && len(j.Events) > 1 { // it has received a message
			if err := m.rest(id); err != nil {
				m.t.Errorf("I4: %v", err)
			}
			j, err = m.journal(id)
		}
		if err != nil {
			m.t.Errorf("I1: the journal of %s: %v", id, err)
		}
		for _, e := range j.Events {
			found[string(e.ID)] = true
			if f, ok := e.Fact.(perdure.MessageReceived); ok {
				found[string(f.Message.ID)] = true
			}
		}
		record.Journals = append(record.Journals, j)
	}
	m.told.mu.Lock()
	defer m.told.mu.Unlock()
	for id, session := range m.told.messages {
		if !found[id] {
			m.t.Errorf("I1: message %s to %s was acknowledged and is gone", id, session)
		}
	}
	for id, text := range m.told.events {
		if !found[string(id)] {
			m.t.Errorf("I1: an event that was read is gone: %s", text)
		}
	}
	for _, id := range m.told.sessions {
		if !slices.ContainsFunc(record.Journals, func(j chaos.Journal) bool { return j.Session == id }) {
			m.t.Errorf("I1: session %s was acknowledged and is gone", id)
		}
	}
	ledger, err := chaos.ReadLedger(filepath.Join(m.work, "ledger.jsonl"))
	if err != nil {
		m.t.Error(err)
	}
	record.Ledger = ledger
	for _, v := range chaos.Check(record) {
		m.t.Errorf("%s: %s %s", v.Invariant, v.Session, v.Text)
	}
	return record
}

// sessions returns all sessions of the server.
func (m *machine) sessions() (all []perdure.SessionID) {
	m.t.Helper()
	for cursor := ""; ; {
		r, err := m.ask(http.MethodGet, "/v1/sessions?limit=100&cursor="+cursor, "", "")
		if err != nil || r.status != http.StatusOK {
			m.t.Fatalf("sessions: %d %s, %v", r.status, r.body, err)
		}
		var page struct {
			Items []engine.Session `json:"items"`
			Next  string           `json:"next"`
		}
		r.into(m.t, &page)
		for _, s := range page.Items {
			all = append(all, s.ID)
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// worker is a script for a model that follows its messages: "charge N" has an external effect that
// counts, once per message; "stuff" has none; anything else writes a file.
func (m *machine) worker() string {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "worker.yaml")
	text := `
rules:
  - when: {last_role: user, user_contains: stuff}
    text: thank you
  - when: {last_role: user, user_contains: charge}
    calls:
      - name: bash
        args: {command: 'printf ''{"effect":"%s","class":"at_most_once"}\n'' "{{user}}" >> ledger.jsonl'}
  - when: {last_role: user}
    calls:
      - name: write_file
        args: {path: 'effects/{{user}}', content: '{{user}}'}
steps:
  - text: done
    repeat: true
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return "scripted:" + path
}

// clients drive the server, each with one session after another, until stop returns true or the
// server is gone. names makes their messages unique. Each turn is a session, a message, the wait
// for idleness, and a read of the journal.
func (m *machine) clients(n int, model, names string, stop func(turn int) bool) {
	m.t.Helper()
	concurrently(n, func(client int) {
		for turn := 0; !stop(turn); turn++ {
			name := fmt.Sprintf("%sc%d-%d", names, client, turn)
			id, r, err := m.begin(model, "begin-"+name)
			if err != nil {
				return
			}
			if r.status != http.StatusCreated {
				continue
			}
			text := "write-" + name
			if m.charge > 0 && turn%m.charge == 1 {
				text = "charge-" + name
			}
			if _, err := m.say(id, text); err != nil {
				return
			}
			if m.rest(id) == nil {
				_, _ = m.journal(id) // the server may just have ended
			}
		}
	})
}
