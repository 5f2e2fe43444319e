package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// modelServer is a server of models that needs a key, which can be replaced.
type modelServer struct {
	url string

	mu    sync.Mutex
	key   string // guarded by mu; empty: none may be sent
	asked int    // guarded by mu; accepted requests
}

// serveModels starts a server of one of the protocols that answers each request with a text.
func serveModels(t *testing.T, kind, key, text string) *modelServer {
	t.Helper()
	m, err := scripted.Parse("word", []byte("steps:\n  - text: "+text+"\n    repeat: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &modelServer{key: key}
	answers := http.Handler(openaitest.New(m, openaitest.Config{}))
	if kind == engine.ProviderAnthropic {
		answers = anthropictest.New(m, anthropictest.Config{})
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key")
		s.mu.Lock()
		right := got == s.key
		if right {
			s.asked++
		}
		s.mu.Unlock()
		if !right {
			refuses(http.StatusUnauthorized, "authentication_error", "")(w, r) // it repeats the key
			return
		}
		answers.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	if kind == engine.ProviderOpenAI {
		s.url += "/v1"
	}
	return s
}

// rotate replaces the key that the server needs.
func (s *modelServer) rotate(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// given runs the program to its end with a text on stdin, and returns its exit code and everything
// that it printed.
func (p place) given(stdin string, args ...string) (code int, said string) {
	p.t.Helper()
	cmd := p.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// noneIn fails the test if a file of the data directory contains one of the texts.
func (p place) noneIn(texts ...string) {
	p.t.Helper()
	err := filepath.WalkDir(p.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range texts {
			if bytes.Contains(text, []byte(secret)) {
				p.t.Errorf("%s contains %q", path, secret)
			}
		}
		return err
	})
	if err != nil {
		p.t.Error(err)
	}
}

// TestStoredProviders stores two providers of different protocols in an empty home, without a
// server, and asks the models of both: by their names, and by the default. No key is printed or
// stored in the clear.
func TestStoredProviders(t *testing.T) {
	t.Parallel()
	const key, other, wrong = "k-first-of-two-providers", "k-second-of-two-providers", "k-wrong-of-a-provider"
	p := newPlace(t, map[string]string{"key.txt": other + "\n"})
	p.env = []string{"OPENAI_API_KEY=", "ANTHROPIC_API_KEY=", "HOME=" + t.TempDir()}
	gate, claude := serveModels(t, engine.ProviderOpenAI, key, "I am the gate"), serveModels(t, engine.ProviderAnthropic, other, "I am Claude")
	var all strings.Builder
	is := func(want int, stdin, contains string, args ...string) {
		t.Helper()
		code, said := p.given(stdin, args...)
		all.WriteString(said)
		if code != want || !strings.Contains(said, contains) {
			t.Errorf("perdure %s: exit code %d, want %d with %q:\n%s", strings.Join(args, " "), code, want, contains, said)
		}
	}

	is(2, "", "there is no default model", "run", "hello")
	is(2, "", "there is no provider gate", "run", "--model", "gate/large", "hello")
	is(3, "", "there is no provider gate", "provider", "show", "gate")
	is(0, wrong+"\n", "stored the provider gate", "provider", "set", "gate", "--kind", "openai", "--base-url", gate.url, "--default-model", "meta/large:8b")
	is(4, "", "refused", "provider", "test", "gate")
	is(0, key+"\n", "gate/MODEL", "provider", "set", "gate", "--base-url", gate.url, "--default-model", "meta/large:8b")
	is(0, "", "gate/meta/large:8b", "provider", "test", "gate", "-o", "json")
	is(0, "", `"result": "ok"`, "provider", "test", "gate/small", "-o", "json")
	is(0, "", "stored the provider claude", "provider", "set", "claude", "--kind", "anthropic", "--base-url", claude.url, "--key-file", filepath.Join(p.work, "key.txt"))
	is(0, "", "I am Claude", "run", "--model", "claude:opus", "hello")
	is(0, "", "I am the gate", "run", "--model", "gate/meta/large:8b", "hello")
	is(2, "", "there is no default model", "run", "hello")
	is(0, "", "gate/meta/large:8b is now the model", "model", "default", "gate:meta/large:8b")
	is(0, "", "I am the gate", "run", "hello")
	is(0, "", "I am Claude", "run", "--model", "claude/opus", "hello")
	is(0, "", "gate/meta/large:8b", "model", "default")
	is(0, "", `"default": true`, "model", "list", "-o", "json")
	is(0, "", "provider.claude.key", "config", "list", "--show-origin")
	is(0, "", `"has_key": true`, "provider", "show", "gate", "-o", "json")
	is(0, "", "provider.created", "audit", "list")

	// A stored key goes nowhere else: not to another URL of the same provider, nor to one in a
	// name.
	is(2, "", "give the key again", "provider", "set", "gate", "--base-url", claude.url, "--keep-key")
	is(2, "", "cannot be changed here", "run", "--model", "gate/large", "--base-url", claude.url, "hello")
	is(2, "", "unencrypted", "provider", "set", "far", "--kind", "openai", "--base-url", "http://models.example/v1", "--key-file", filepath.Join(p.work, "key.txt"))
	is(2, "", "kind", "provider", "set", "gate", "--kind", "anthropic", "--no-key")
	is(2, "", "the value is empty", "provider", "set", "more", "--kind", "openai")
	is(0, "", "", "provider", "set", "gate", "--base-url", gate.url, "--keep-key", "--default-model", "small")
	is(0, "", "gate/small", "provider", "test", "gate")

	is(0, "", "no default any more", "model", "default", "--clear")
	is(2, "", "there is no default model", "run", "hello")
	is(0, "", "removed the provider gate", "provider", "delete", "gate", "--yes")
	is(2, "", "there is no provider gate", "run", "--model", "gate/large", "hello")
	is(3, "", "no provider gate is stored", "provider", "delete", "gate", "--yes")
	is(3, "", "no provider openai is stored", "provider", "delete", "openai", "--yes")
	for _, secret := range []string{key, other, wrong} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%q was printed:\n%s", secret, all.String())
		}
	}
	p.noneIn(key, other, wrong)
}

// TestStoredProviderOfBuiltIn: a key from the environment comes before a stored one, and is never
// sent to the stored URL.
func TestStoredProviderOfBuiltIn(t *testing.T) {
	t.Parallel()
	const key = "k-stored-for-openai"
	gate := serveModels(t, engine.ProviderOpenAI, key, "I am the gate")
	p := newPlace(t, nil)
	p.env = []string{"OPENAI_API_KEY=", "HOME=" + t.TempDir()}
	if code, said := p.given(key, "provider", "set", "openai", "--base-url", gate.url); code != 0 {
		t.Fatal(said)
	}

	if code, said := p.given("", "run", "--model", "openai:large", "hello"); code != 0 || !strings.Contains(said, "I am the gate") {
		t.Errorf("with the stored key: exit code %d: %s", code, said)
	}
	p.env[0] = "OPENAI_API_KEY=k-of-the-environment"
	if _, said := p.given("", "provider", "show", "openai"); !strings.Contains(said, "$OPENAI_API_KEY") || !strings.Contains(said, "not used while") || strings.Contains(said, gate.url) {
		t.Errorf("with a key of the environment: %s", said)
	}
	if _, said := p.given("", "config", "list", "--show-origin"); !strings.Contains(said, "$OPENAI_API_KEY") {
		t.Errorf("its origin is not shown: %s", said)
	}
	if code, said := p.given("", "run", "--model", "openai:large", "--base-url", gate.url, "hello"); code == 0 {
		t.Errorf("the stored key was sent with a URL in the name: %s", said)
	}
	gate.mu.Lock()
	defer gate.mu.Unlock()
	if gate.asked != 1 {
		t.Errorf("the server was asked %d times", gate.asked)
	}
}

// TestStoredKeyWithoutKeyring: a key that cannot be opened fails with the reason. No request is
// sent, and no other key is used.
func TestStoredKeyWithoutKeyring(t *testing.T) {
	t.Parallel()
	gate := serveModels(t, engine.ProviderOpenAI, "", "I am the gate") // it would answer without a key
	p := newPlace(t, nil)
	p.env = []string{"OPENAI_API_KEY=k-of-the-environment", "HOME=" + t.TempDir()}
	if code, said := p.given("k-stored", "provider", "set", "gate", "--kind", "openai", "--base-url", gate.url); code != 0 {
		t.Fatal(said)
	}
	if err := os.Remove(filepath.Join(p.data, "keyring")); err != nil {
		t.Fatal(err)
	}

	code, said := p.given("", "run", "--model", "gate/small", "hello")

	if code == 0 || !strings.Contains(said, "keyring") || strings.Contains(said, "internal error") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if code, said := p.given("k-new", "provider", "set", "gate", "--base-url", gate.url); code == 0 || !strings.Contains(said, "keyring") {
		t.Errorf("a key was stored without a keyring: exit code %d: %s", code, said)
	}
	gate.mu.Lock()
	defer gate.mu.Unlock()
	if gate.asked != 0 {
		t.Errorf("the server was asked %d times", gate.asked)
	}
}

// send sends a request with a body, and returns the status and the body of the response.
func (d *doorway) send(method, path, body, secret string) (int, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		panic(err) // the paths of a test are valid
	}
	req.Header.Set("Content-Type", "application/json")
	token := d.token
	if secret != "" {
		d.token = secret
	}
	got, err := d.do(req)
	d.token = token
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return got.status, got.body
}

// answers creates a session without a model for the bearer of a token, and returns what it answers
// and the model that was recorded.
func (d *doorway) answers(secret string) (text, model string) {
	d.t.Helper()
	status, body := d.send(http.MethodPost, "/v1/sessions", `{"agent":{}}`, secret)
	var s engine.Session
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusCreated {
		d.t.Fatalf("new session: %d %s", status, body)
	}
	d.until("an answer in "+string(s.ID), func() bool { return d.saidIn(s.ID, secret, &text) })
	return text, s.Agent.Model
}

// saidIn sends a message, once, and reports whether the last turn of the session has ended.
func (d *doorway) saidIn(id perdure.SessionID, secret string, text *string) bool {
	d.t.Helper()
	path := "/v1/sessions/" + string(id)
	if status, body := d.send(http.MethodPost, path+"/messages", `{"id":"message_019aa0000000700080000000000000aa","content":[{"type":"text","text":"hello"}]}`, secret); status >= 300 {
		d.t.Fatalf("message: %d %s", status, body)
	}
	_, body := d.send(http.MethodGet, path+"/events?limit=200", "", secret)
	if !strings.Contains(body, "turn.") || !strings.Contains(body, "session.idled") {
		return false
	}
	*text = body
	return true
}

// tokenFor creates a token, and returns its secret.
func (d *doorway) tokenFor(body string) string {
	d.t.Helper()
	_, answer := d.send(http.MethodPost, "/v1/tokens", body, "")
	var made engine.IssuedToken
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.Secret == "" {
		d.t.Fatalf("%v: %s", err, answer)
	}
	return made.Secret
}

// TestStoredProvidersOfAServer manages providers over HTTP, beside a server that is killed: the key
// is in no response, another process rotates it without a restart, a second org has a default of
// its own, and a kill between the write and the use loses nothing.
func TestStoredProvidersOfAServer(t *testing.T) {
	t.Parallel()
	const key, next = "k-before-the-rotation", "k-after-the-rotation"
	gate, house := serveModels(t, engine.ProviderOpenAI, key, "I am the gate"), serveModels(t, engine.ProviderOpenAI, "", "I am the house")
	d := newDoorway(t, nil)
	d.env = []string{"OPENAI_API_KEY=", "ANTHROPIC_API_KEY=", "HOME=" + t.TempDir()}
	d.start()
	is := func(want int, contains, method, path, body, secret string) {
		t.Helper()
		status, got := d.send(method, path, body, secret)
		if status != want || !strings.Contains(got, contains) || strings.Contains(got, key) || strings.Contains(got, next) {
			t.Errorf("%s %s: got %d %s, want %d with %q", method, path, status, got, want, contains)
		}
	}
	acme, agent := d.tokenFor(`{"name":"acme","org":"acme","scopes":["read","write","admin"]}`), d.tokenFor(`{"name":"agent","agent":true}`)
	write := func(s *modelServer, key string) string {
		return fmt.Sprintf(`{"kind":"openai","base_url":%q,"key":%q,"default_model":"small"}`, s.url, key)
	}

	is(200, `"has_key":true`, http.MethodPut, "/v1/providers/gate", write(gate, key), "")
	is(200, `"default_model":"small"`, http.MethodPut, "/v1/providers/house", write(house, ""), "")
	is(403, "", http.MethodPut, "/v1/providers/gate", write(house, key), agent)
	is(404, "", http.MethodPut, "/v1/providers/gate", write(house, key), acme)
	is(404, "", http.MethodDelete, "/v1/providers/gate", "", acme)
	is(200, `"name":"gate"`, http.MethodGet, "/v1/providers/gate", "", acme)
	if _, body := d.send(http.MethodGet, "/v1/providers", "", acme); strings.Contains(body, gate.url) {
		t.Errorf("another org sees where a provider is: %s", body)
	}
	is(400, "give the key again", http.MethodPut, "/v1/providers/gate", fmt.Sprintf(`{"base_url":%q}`, house.url), "")
	is(400, "", http.MethodPut, "/v1/providers/Gate", write(gate, key), "")
	is(200, `"result":"ok"`, http.MethodPost, "/v1/providers/gate/test", "", "")
	is(404, "", http.MethodPost, "/v1/providers/none/test", "", "")
	is(200, `"name":"gate/large"`, http.MethodPut, "/v1/models/default", `{"name":"gate:large"}`, "")
	is(400, "there is no provider none", http.MethodPut, "/v1/models/default", `{"name":"none/large"}`, "")
	is(403, "", http.MethodPut, "/v1/models/default", `{"name":"scripted:/etc/passwd"}`, acme)
	is(403, "another org", http.MethodPut, "/v1/models/default?org=default", `{"name":"house/small"}`, acme)
	if text, model := d.answers(acme); !strings.Contains(text, "I am the gate") || model != "gate/large" {
		t.Errorf("without a default of its own: %s by %s", text, model)
	}
	is(200, `"source":"org"`, http.MethodPut, "/v1/models/default", `{"name":"house/small"}`, acme)

	d.kill()
	d.start()
	if text, model := d.answers(acme); !strings.Contains(text, "I am the house") || model != "house/small" {
		t.Errorf("of the second org: %s by %s", text, model)
	}
	if text, model := d.answers(""); !strings.Contains(text, "I am the gate") || model != "gate/large" {
		t.Errorf("of the first org: %s by %s", text, model)
	}

	gate.rotate(next)
	is(200, `"result":"refused"`, http.MethodPost, "/v1/providers/gate/test", "", "")
	if code, said := d.given(next, "provider", "set", "gate", "--base-url", gate.url, "--default-model", "small"); code != 0 || strings.Contains(said, next) {
		t.Fatalf("exit code %d: %s", code, said)
	}
	is(200, `"result":"ok"`, http.MethodPost, "/v1/providers/gate/test", "", "")
	if text, _ := d.answers(""); !strings.Contains(text, "I am the gate") {
		t.Errorf("after the rotation: %s", text)
	}

	is(200, "", http.MethodDelete, "/v1/models/default", "", acme)
	is(200, `"name":"gate/large"`, http.MethodGet, "/v1/models/default", "", acme)
	is(200, "", http.MethodDelete, "/v1/providers/gate", "", "")
	if text, _ := d.answers(""); !strings.Contains(text, "model_unavailable") {
		t.Errorf("of a deleted provider: %s", text)
	}
	is(200, "", http.MethodDelete, "/v1/models/default", "", "")
	if text, model := d.answers(""); !strings.Contains(text, "there is no default model") && !strings.Contains(text, "model_unavailable") || model != "" {
		t.Errorf("without a default: %s by %q", text, model)
	}
	d.noneIn(key, next)
}

// TestSessionTitles: with --session-titles the utility model names a session that has no title,
// once, and its usage is in the journal; without the flag nothing is named.
func TestSessionTitles(t *testing.T) {
	t.Parallel()
	talk, small := serveModels(t, engine.ProviderOpenAI, "", "I am the gate"), serveModels(t, engine.ProviderOpenAI, "", `'"A greeting"'`)
	d := newDoorway(t, nil)
	d.env = []string{"HOME=" + t.TempDir()}
	d.serve = []string{"--utility-model", "small/any", "--session-titles", "--model", "talk/any"}
	d.start()
	for name, s := range map[string]*modelServer{"talk": talk, "small": small} {
		if status, body := d.send(http.MethodPut, "/v1/providers/"+name, fmt.Sprintf(`{"kind":"openai","base_url":%q}`, s.url), ""); status != 200 {
			t.Fatal(body)
		}
	}

	if text, model := d.answers(""); !strings.Contains(text, "I am the gate") || model != "talk/any" {
		t.Errorf("answered %s by %s", text, model)
	}

	var all []engine.Session
	d.until("a title", func() bool {
		var page struct {
			Items []engine.Session `json:"items"`
		}
		d.get("/v1/sessions").into(t, &page)
		all = page.Items
		return len(all) == 1 && all[0].Title != ""
	})
	if all[0].Title != "A greeting" {
		t.Errorf("title %q", all[0].Title)
	}
	bills := 0
	for _, e := range d.events(all[0].ID) {
		if bill, ok := e.Fact.(perdure.Generation); ok && bill.Tool == "session_title" {
			bills++
		}
	}
	if bills != 1 {
		t.Errorf("%d bills of the utility model", bills)
	}

	if code, said := d.given("", "serve", "--addr", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--session-titles"); code != 2 || !strings.Contains(said, "--utility-model") {
		t.Errorf("titles without a model: exit code %d: %s", code, said)
	}
}
