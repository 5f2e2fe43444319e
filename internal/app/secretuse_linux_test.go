package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// canarySecret is the value of the secrets of these tests.
const canarySecret = "zq-canary-7f31-of-the-test"

// mirror is a server that tells what it was sent. /leave sends the browser to another address.
type mirror struct {
	*httptest.Server
	port string

	mu   sync.Mutex
	seen []string // guarded by mu; host, key and query of each request
}

func newMirror(t *testing.T) *mirror {
	m := &mirror{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.seen = append(m.seen, strings.Split(r.Host, ":")[0]+" "+r.Header.Get("X-Key")+" "+r.URL.Query().Get("k"))
		m.mu.Unlock()
		if to := r.URL.Query().Get("to"); r.URL.Path == "/leave" && to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = fmt.Fprintf(w, "key %s, query %s\n", r.Header.Get("X-Key"), r.URL.RawQuery)
	}))
	t.Cleanup(m.Close)
	m.port = m.Server.URL[strings.LastIndex(m.Server.URL, ":")+1:]
	return m
}

// requests returns what arrived.
func (m *mirror) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// secretPlace is a data directory with a session that has a secret for a host.
type secretPlace struct {
	place
	session string
}

// newSecretPlace creates a session whose model answers a message with the call that stands in it,
// and a message after a result with the result.
func newSecretPlace(t *testing.T, m *mirror, hosts ...string) secretPlace {
	t.Helper()
	p := secretPlace{place: newPlace(t, map[string]string{"agent.yaml": `
rules:
  - when: {last_role: tool_result}
    text: "It came to: {{last}}"
  - when: {last_role: notification}
    text: "It ended: {{note}}"
steps:
  - {text: ready, repeat: true}
`})}
	if m != nil {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			p.output("egress", "allow", "--private", host+":"+m.port)
		}
	}
	p.session = strings.TrimSpace(p.output("session", "new", "--model", "scripted:"+filepath.Join(p.work, "agent.yaml"),
		"--capability", "session_storage", "-o", "name"))
	p.secret("API_KEY", canarySecret, hosts...)
	return p
}

// secret stores a secret.
func (p secretPlace) secret(name, value string, hosts ...string) {
	p.t.Helper()
	args := []string{"secret", "set", p.session, name}
	for _, host := range hosts {
		args = append(args, "--host", host)
	}
	cmd := p.command(args...)
	cmd.Stdin = strings.NewReader(value)
	if said, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, said)
	}
}

// asks runs a new session with the secret, whose model makes one call, and returns what the model
// got.
func (p secretPlace) asks(tool string, args any, flags ...string) string {
	p.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	script := filepath.Join(p.work, "agent.yaml")
	call := fmt.Sprintf("rules:\n  - when: {last_role: tool_result}\n    text: \"It came to: {{last}}\"\n  - when: {last_role: notification}\n    text: \"It ended: {{note}}\"\n  - when: {last_role: user}\n    calls: [{name: %s, args: %s}]\nsteps:\n  - {text: ready, repeat: true}\n", tool, text)
	if err := os.WriteFile(script, []byte(call), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return p.output(append([]string{"run", "--session", p.session, "do it"}, flags...)...)
}

// isNowhere fails if the canary stands anywhere in the journal, the output or the logs.
func (p secretPlace) isNowhere(where ...string) {
	p.t.Helper()
	where = append(where, p.output("event", "list", p.session, "-o", "json"), p.output("audit", "list", "-o", "json"),
		p.output("call", "list", p.session, "-o", "json"))
	for _, text := range where {
		if strings.Contains(text, canarySecret) {
			p.t.Errorf("the secret is shown:\n%s", text)
		}
	}
}

// TestSecretInRequest: a secret in a header or in the URL of web_fetch is inserted for its hosts
// only, also over redirects, and is masked in what comes back.
func TestSecretInRequest(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	p := newSecretPlace(t, m, "127.0.0.1")
	at := func(host, path string) string { return "http://" + host + ":" + m.port + path }
	fetch := func(address, header string) string {
		args := map[string]any{"url": address}
		if header != "" {
			args["headers"] = map[string]string{"x-key": header}
		}
		said := p.asks("web_fetch", args)
		p.isNowhere(said)
		return said
	}

	said := fetch(at("127.0.0.1", "/?k=secret:API_KEY"), "Bearer secret:API_KEY")
	if !strings.Contains(said, "key Bearer <redacted") || !strings.Contains(said, "secret:API_KEY") {
		t.Errorf("the allowed host: %s", said)
	}
	refused := map[string]string{
		fetch(at("localhost", "/"), "secret:API_KEY"):                                                                 "may be sent to 127.0.0.1 only, not to localhost",
		fetch(at("localhost", "/?k=secret:API_KEY"), ""):                                                              "may be sent to 127.0.0.1 only, not to localhost",
		fetch(at("127.0.0.1", "/"), "secret:OTHER"):                                                                   "does not exist in this session",
		fetch(at("127.0.0.1", "/leave?to="+url.QueryEscape(at("localhost", "/?k=secret:API_KEY"))), "secret:API_KEY"): "may be sent to 127.0.0.1 only, not to localhost",
	}
	for said, why := range refused {
		if !strings.Contains(said, "The request was not sent") || !strings.Contains(said, why) {
			t.Errorf("want %q: %s", why, said)
		}
	}
	// A redirect to another host does not carry the header.
	fetch(at("127.0.0.1", "/leave?to="+url.QueryEscape(at("localhost", "/"))), "secret:API_KEY")
	fetch(at("127.0.0.1", "/leave?to=/next"), "secret:API_KEY")

	for _, got := range m.requests() {
		if strings.HasPrefix(got, "localhost") && strings.Contains(got, "canary") {
			t.Errorf("the other host received %s", got)
		}
	}
	want := []string{"127.0.0.1 Bearer " + canarySecret + " " + canarySecret, "127.0.0.1 " + canarySecret + " ", "localhost  "}
	for _, one := range want {
		if !slices.Contains(m.requests(), one) {
			t.Errorf("%q did not arrive: %q", one, m.requests())
		}
	}
	if audit := p.output("audit", "list", "-o", "json"); !strings.Contains(audit, "secret.read") || !strings.Contains(audit, "egress.denied") {
		t.Errorf("the audit log has %s", audit)
	}
}

// TestSecretInCommand: a command has a secret in its environment only if somebody allowed it, and
// no output shows it.
func TestSecretInCommand(t *testing.T) {
	t.Parallel()
	p := newSecretPlace(t, nil)
	workspace := filepath.Join(p.work, "ws")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	p.session = strings.TrimSpace(p.output("session", "new", "--model", "scripted:"+filepath.Join(p.work, "agent.yaml"), "--workspace", workspace,
		"--capability", "session_storage", "--capability", "bashkit_shell", "-o", "name"))
	p.secret("API_KEY", canarySecret)
	command := map[string]any{"command": `printf '%s\n' "$API_KEY"; printf %s "$API_KEY" | base64; printf %s "$API_KEY" | wc -c; cat /proc/$$/cmdline`,
		"secrets": []string{"API_KEY"}}

	without := p.asks("bash", command)
	p.isNowhere(without)
	if !strings.Contains(without, "nobody has allowed it") || !strings.Contains(without, "--use-secret API_KEY") {
		t.Errorf("without a permission: %s", without)
	}
	for _, flags := range [][]string{{"--use-secret", "API_KEY"}, {"--use-secret", "*"}, {"--allow-secret", "API_KEY"}} {
		with := p.asks("bash", command, flags...)
		p.isNowhere(with)
		if !strings.Contains(with, fmt.Sprint(len(canarySecret))) || !strings.Contains(with, "redacted") {
			t.Errorf("with %q: %s", flags, with)
		}
	}
	background := p.asks("spawn_background", map[string]any{"tool": "bash", "title": "use it", "args": command}, "--use-secret", "API_KEY")
	task := strings.TrimSpace(p.output("task", "list", "--session", p.session, "-o", "name"))
	log := p.output("task", "log", task)
	p.isNowhere(background, log)
	if !strings.Contains(log, "redacted") {
		t.Errorf("the log of the background run: %s", log)
	}
	for name, value := range map[string]string{"LD_PRELOAD": "x.so", "PATH": "/evil", "not a name": "x"} {
		p.secret(name, value)
		said := p.asks("bash", map[string]any{"command": "true", "secrets": []string{name}}, "--use-secret", "*")
		if !strings.Contains(said, "cannot be used in a command") {
			t.Errorf("%s: %s", name, said)
		}
	}
	// No file of the data directory has the value: neither the run directories nor the store.
	if found := filesWith(t, p.data, canarySecret); len(found) > 0 {
		for _, path := range found {
			if filepath.Base(path) != "output" { // what the command itself wrote, which its owner alone can read
				t.Errorf("%s contains the secret", path)
			}
		}
	}
}

// filesWith returns the files below a directory that contain a text.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go
		}
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), text) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// isShown reports whether a result in the journal shows the secret to the model. The output of the
// model is masked in any case.
func (p secretPlace) isShown() bool {
	p.t.Helper()
	return strings.Contains(p.output("event", "list", p.session, "-o", "json"), canarySecret)
}

// newSession creates another session with the secret.
func (p *secretPlace) newSession(flags ...string) {
	p.t.Helper()
	p.session = strings.TrimSpace(p.output(append([]string{"session", "new", "-o", "name"}, flags...)...))
	p.secret("API_KEY", canarySecret)
}

// TestSecretShown: the model reads a secret only with a flag, an approval, or a permission of its
// agent.
func TestSecretShown(t *testing.T) {
	t.Parallel()
	p := newSecretPlace(t, nil)
	get := map[string]any{"operation": "get", "name": "API_KEY"}
	plain := []string{"--model", "scripted:" + filepath.Join(p.work, "agent.yaml"), "--capability", "session_storage"}

	for _, flags := range [][]string{nil, {"--use-secret", "*"}, {"--allow-secret", "OTHER"}} {
		if said := p.asks("secret_store", get, flags...); p.isShown() || !strings.Contains(said, "secret.read") {
			t.Errorf("with %q: %s", flags, said)
		}
	}
	if said := p.asks("secret_store", get, "--allow-secret", "API_KEY"); !p.isShown() {
		t.Errorf("allowed by flag: %s", said)
	}

	agent := "name: reader\nmodel: scripted:" + filepath.Join(p.work, "agent.yaml") + "\ncapabilities: [session_storage]\n" +
		"permissions: [{kind: secret.read, target: API_KEY, decision: allow}]\n"
	if err := os.WriteFile(filepath.Join(p.work, "reader.yaml"), []byte(agent), 0o600); err != nil {
		t.Fatal(err)
	}
	p.output("agent", "apply", filepath.Join(p.work, "reader.yaml"))
	p.newSession("--agent", "reader")
	if said := p.asks("secret_store", get); !p.isShown() {
		t.Errorf("allowed by the agent: %s", said)
	}

	// The operator's question is stricter than the permission of the agent.
	for _, flags := range [][]string{{"--agent", "reader"}, plain} {
		p.newSession(flags...)
		cmd := p.command("run", "--session", p.session, "again", "--ask-secret", "API_KEY", "--no-input")
		if said, err := cmd.CombinedOutput(); err == nil || p.isShown() {
			t.Errorf("a question was not asked: %v %s", err, said)
		}
		p.output("approve", strings.TrimSpace(p.output("approval", "list", "-o", "name")), "--yes")
		if said := p.output("run", "--session", p.session, "--ask-secret", "API_KEY"); !p.isShown() {
			t.Errorf("approved: %s", said)
		}
	}
}
