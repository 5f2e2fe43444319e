package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// doorway is a data directory with a server that is repeatedly killed or stopped and restarted. The
// test holds the listener and passes it to each server, so that requests between two servers wait.
type doorway struct {
	place
	url      string
	token    string
	serve    []string // flags of serve
	listener *os.File
	server   *exec.Cmd
	talk     *os.File // stderr of the servers
	http     *http.Client
	slowest  time.Duration // of all starts
	broken   atomic.Int64  // reads without a complete response, which were repeated
}

func newDoorway(t *testing.T, files map[string]string) *doorway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil { // file continues to listen
		t.Fatal(err)
	}
	talk, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	d := &doorway{
		place: newPlace(t, files), url: "http://" + listener.Addr().String(), listener: file, talk: talk,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: waitTime},
	}
	t.Cleanup(func() {
		d.http.CloseIdleConnections()
		if d.server != nil {
			d.kill()
		}
		_ = file.Close()
		said, _ := os.ReadFile(talk.Name())
		_ = talk.Close()
		if t.Failed() || bytes.Contains(said, []byte("DATA RACE")) {
			t.Errorf("the servers said:\n%s", complaints(said))
		}
	})
	return d
}

// complaints returns the log lines that a healthy server never writes.
func complaints(said []byte) string {
	var lines strings.Builder
	for line := range strings.Lines(string(said)) {
		word, _, _ := strings.Cut(line, " ")
		if !slices.Contains([]string{"data", "token", "socket", "try:", "stopped:"}, word) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// start starts a server and returns when it has printed its URL.
func (d *doorway) start() {
	d.t.Helper()
	began := time.Now()
	defer func() { d.slowest = max(d.slowest, time.Since(began)) }()
	d.server = d.command(append([]string{"serve"}, d.serve...)...)
	d.server.Env = append(d.server.Env, "LISTEN_FDS=1")
	d.server.ExtraFiles = []*os.File{d.listener} // the child's fd 3
	d.server.Stderr = d.talk
	out, err := d.server.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.server.Start(); err != nil {
		d.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != d.url {
		d.t.Fatalf("the server says %q (%v), want %s", line, err, d.url)
	}
	if d.token != "" {
		return // the token of the directory; other goroutines already read it
	}
	token, err := os.ReadFile(filepath.Join(d.data, tokenFile))
	if err != nil {
		d.t.Fatal(err)
	}
	d.token = strings.TrimSpace(string(token))
}

// kill ends the server with SIGKILL.
func (d *doorway) kill() {
	_ = d.server.Process.Kill() // it may have ended by itself
	_ = d.server.Wait()         // it was killed
	d.server = nil
}

// stop ends the server with SIGTERM, which is not an error.
func (d *doorway) stop() {
	d.t.Helper()
	if err := d.server.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	if err := d.server.Wait(); err != nil {
		d.t.Errorf("a server that was stopped: %v", err)
	}
	d.server = nil
}

// script writes a script for the model, and returns the model's name.
func (d *doorway) script(text string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), "script.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return "scripted:" + path
}

// post is one POST, which can be repeated.
type post struct {
	path, key, body string
}

// reply is a response.
type reply struct {
	status   int
	replayed bool
	retry    string // Retry-After
	idle     string // Perdure-Idle
	location string
	body     string
}

// same reports whether two responses are equal byte for byte.
func (r reply) same(other reply) bool {
	return r.status == other.status && r.location == other.location && r.body == other.body
}

// into decodes the body.
func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Errorf("answer %d %s: %v", r.status, r.body, err)
	}
}

// do sends a request once. An error means that there is no complete response.
func (d *doorway) do(req *http.Request) (reply, error) {
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := d.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	h := resp.Header
	return reply{
		status: resp.StatusCode, replayed: h.Get("Idempotency-Replayed") != "", retry: h.Get("Retry-After"), idle: h.Get("Perdure-Idle"),
		location: h.Get("Location"), body: string(body),
	}, err
}

func (d *doorway) request(p post) *http.Request {
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+p.path, strings.NewReader(p.body))
	if err != nil {
		panic(err) // the paths of a test are valid
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", p.key)
	return req
}

// get sends a GET, and repeats it until there is a response.
func (d *doorway) get(path string) reply {
	ctx, cancel := context.WithTimeout(d.t.Context(), waitTime)
	defer cancel()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
		if err != nil {
			panic(err) // as above
		}
		r, err := d.do(req)
		if err == nil && r.status == http.StatusOK {
			return r
		}
		if err != nil {
			d.broken.Add(1)
			d.t.Logf("GET %s: %v", path, err)
		}
		d.pause(20*time.Millisecond, 20*time.Millisecond)
	}
	d.t.Errorf("GET %s: no answer within %s", path, waitTime)
	return reply{body: "{}"}
}

// insist sends a POST until it is answered, and returns how many attempts had no response or had to
// be repeated later.
func (d *doorway) insist(p post) (r reply, lost int) {
	ctx, cancel := context.WithTimeout(d.t.Context(), waitTime)
	defer cancel()
	for ctx.Err() == nil {
		req := d.request(p)
		req.GetBody = nil // otherwise the transport would repeat the request by itself, uncounted
		r, err := d.do(req)
		switch {
		case err != nil:
			lost++
		case r.status == http.StatusServiceUnavailable || r.status == http.StatusConflict && strings.Contains(r.body, `"in_flight"`):
		default:
			return r, lost
		}
		d.pause(10*time.Millisecond, 20*time.Millisecond)
	}
	d.t.Errorf("POST %s: no answer within %s", p.path, waitTime)
	return r, lost
}

// pause waits for a random time between two bounds, or until the test ends.
func (d *doorway) pause(least, most time.Duration) {
	timer := time.NewTimer(least + rand.N(most-least+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.t.Context().Done():
	}
}

// until polls until look returns true.
func (d *doorway) until(what string, look func() bool) {
	d.t.Helper()
	for began := time.Now(); !look(); d.pause(10*time.Millisecond, 10*time.Millisecond) {
		if time.Since(began) > waitTime {
			d.t.Fatalf("%s: not within %s", what, waitTime)
		}
	}
}

// begin starts a session with an agent that calls a model and can run commands.
func (d *doorway) begin(model, key string) perdure.SessionID {
	agent, err := json.Marshal(map[string]any{"agent": perdure.Agent{Model: model, Capabilities: []string{"bashkit_shell"}, Metadata: map[string]string{"workspace": d.work}}})
	if err != nil {
		panic(err) // encoding cannot fail
	}
	r, _ := d.insist(post{"/v1/sessions", key, string(agent)})
	var s engine.Session
	if r.into(d.t, &s); r.status != http.StatusCreated {
		d.t.Errorf("new session: %d %s", r.status, r.body)
	}
	return s.ID
}

// say is a message.
func say(id perdure.SessionID, key, text string) post {
	return post{"/v1/sessions/" + string(id) + "/messages", key, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)}
}

// rest waits until a session is idle.
func (d *doorway) rest(id perdure.SessionID) {
	for began := time.Now(); d.get("/v1/sessions/"+string(id)+"?wait=5s").idle != "true"; {
		if time.Since(began) > waitTime {
			d.t.Errorf("%s is not at rest within %s", id, waitTime)
			return
		}
		d.pause(time.Millisecond, 10*time.Millisecond) // a draining server does not wait
	}
}

// events reads a session's journal to its end.
func (d *doorway) events(id perdure.SessionID) (all []perdure.Event) {
	for after := int64(0); ; {
		var page struct {
			Items []json.RawMessage `json:"items"`
			Last  int64             `json:"last_seq"`
		}
		d.get(fmt.Sprintf("/v1/sessions/%s/events?limit=200&after=%d", id, after)).into(d.t, &page)
		for _, text := range page.Items {
			e, err := perdure.DecodeEvent(text)
			if err != nil || e.Seq != after+1 {
				d.t.Errorf("event %s after %d: %v", text, after, err)
			}
			all, after = append(all, e), e.Seq
		}
		if len(page.Items) < 200 {
			return all
		}
	}
}

// taskOf waits until a session has a running task, and returns its id.
func (d *doorway) taskOf(id perdure.SessionID) (task perdure.TaskID) {
	d.t.Helper()
	d.until("a task of "+string(id), func() bool {
		var page struct {
			Items []perdure.Task `json:"items"`
		}
		d.get("/v1/tasks?session="+string(id)).into(d.t, &page)
		if len(page.Items) == 0 || page.Items[0].State != perdure.TaskRunning {
			return false
		}
		task = page.Items[0].ID
		return true
	})
	return task
}

// follower is another process that follows events and prints them.
type follower struct {
	d    *doorway
	name string
	cmd  *exec.Cmd
	out  string   // file of its stdout
	talk *os.File // its stderr
}

// follow starts the program next to the server.
func (d *doorway) follow(name string, args ...string) *follower {
	d.t.Helper()
	f := &follower{d: d, name: name, cmd: d.command(args...), out: filepath.Join(d.t.TempDir(), "out")}
	out, err := os.Create(f.out)
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Close()
	if f.talk, err = os.Create(f.out + ".err"); err != nil {
		d.t.Fatal(err)
	}
	f.cmd.Env = append(f.cmd.Env, "PERDURE_TOKEN="+d.token)
	f.cmd.Stdout, f.cmd.Stderr = out, f.talk
	if err := f.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = f.cmd.Process.Kill() // it has ended, unless the test failed
		_ = f.talk.Close()
		if said, _ := os.ReadFile(f.talk.Name()); d.t.Failed() {
			d.t.Logf("%s printed %d bytes and said: %s", f.name, len(f.printed()), said)
		}
	})
	return f
}

// printed is its output so far.
func (f *follower) printed() string {
	f.d.t.Helper()
	text, err := os.ReadFile(f.out)
	if err != nil {
		f.d.t.Fatal(err)
	}
	return string(text)
}

// ends waits for its end, with one of these exit codes.
func (f *follower) ends(codes ...int) {
	f.d.t.Helper()
	late := atomic.Bool{}
	timer := time.AfterFunc(waitTime, func() {
		late.Store(true)
		_ = f.cmd.Process.Kill() // it may end at this moment
	})
	defer timer.Stop()
	err := f.cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || !slices.Contains(codes, f.cmd.ProcessState.ExitCode()) {
		f.d.t.Errorf("%s: %v, want exit code %v; killed because it was late: %t", f.name, err, codes, late.Load())
	}
}

// concurrently runs n goroutines and waits for them.
func concurrently(n int, work func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { work(i) })
	}
	group.Wait()
}
