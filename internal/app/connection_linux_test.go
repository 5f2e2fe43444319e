package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/connection/oauthtest"
	"github.com/perdure/perdure/internal/pgtest"
)

// fetching is a model that asks the API of the provider until it has an answer, and reports it.
func fetching(provider *oauthtest.Provider) string {
	return fmt.Sprintf(`
rules:
  - when: {last_role: tool_result, last_contains: "Repeat the call"}
    calls: [{name: web_fetch, args: {url: "%s/api", headers: {Authorization: "Bearer connection:demo"}}}]
  - when: {last_role: tool_result}
    text: "It came to: {{last}}"
steps:
  - calls: [{name: web_fetch, args: {url: "%s/api", headers: {Authorization: "Bearer connection:demo"}}}]
  - {text: done, repeat: true}
`, provider.URL, provider.URL)
}

// accounts is a server whose users connect accounts at a provider.
type accounts struct {
	*doorway
	provider *oauthtest.Provider
}

// newAccounts prepares a data directory, without starting its server.
func newAccounts(t *testing.T) accounts {
	t.Helper()
	provider := oauthtest.New(t)
	a := accounts{newDoorway(t, map[string]string{"agent.yaml": fetching(provider)}), provider}
	a.output("egress", "allow", "--private", strings.TrimPrefix(provider.URL, "http://"))
	a.configure(a.data, a.url+"/v1/connections/callback")
	return a
}

// configure writes the oauth.json of a data directory.
func (a accounts) configure(data, redirect string) {
	a.t.Helper()
	if err := os.MkdirAll(data, 0o700); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, oauthFile), []byte(a.provider.Config("demo", redirect)), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// send sends a request with a token, and decodes the response into into, unless that is nil.
func (a accounts) send(r request, into any) int {
	a.t.Helper()
	return sendTo(a.t, a.url, r, into)
}

// request is a request to a server.
type request struct{ token, method, path, body string }

func sendTo(t *testing.T, server string, r request, into any) int {
	t.Helper()
	req, err := http.NewRequest(r.method, server+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: waitTime}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && into != nil && resp.StatusCode < 300 {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s %s: %d %s: %v", r.method, r.path, resp.StatusCode, text, err)
	}
	return resp.StatusCode
}

// tokenFor creates a token.
func (a accounts) tokenFor(body string) string {
	a.t.Helper()
	var made struct {
		Secret string `json:"token"`
	}
	if status := a.send(request{a.token, "POST", "/v1/tokens", body}, &made); status != 201 {
		a.t.Fatalf("no token: %d", status)
	}
	return made.Secret
}

// list returns the accounts that a token sees.
func (a accounts) list(token, query string) (all []engine.Connection) {
	a.t.Helper()
	var page struct{ Items []engine.Connection }
	a.send(request{token, "GET", "/v1/connections" + query, ""}, &page)
	return page.Items
}

// begins begins an authorization.
func (a accounts) begins(token string) (flow engine.ConnectionFlow) {
	a.t.Helper()
	if status := a.send(request{token, "POST", "/v1/connections/demo/authorize", "{}"}, &flow); status != 200 {
		a.t.Fatalf("authorize: %d", status)
	}
	return flow
}

// message sends a message to a session.
func (a accounts) message(server, token, id string) {
	a.t.Helper()
	status := sendTo(a.t, server, request{token, "POST", "/v1/sessions/" + id + "/messages", `{"content":[{"type":"text","text":"go"}]}`}, nil)
	if status != 202 {
		a.t.Fatalf("message: %d", status)
	}
}

// untilTrue waits for a condition.
func untilTrue(t *testing.T, holds func() bool) {
	t.Helper()
	late := time.NewTimer(waitTime)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("not within %s", waitTime)
		}
	}
}

// until waits for a state of a session.
func (a accounts) until(server, token, id, state string) {
	a.t.Helper()
	untilTrue(a.t, func() bool {
		var s engine.Session
		sendTo(a.t, server, request{token, "GET", "/v1/sessions/" + id, ""}, &s)
		return string(s.Status) == state && (state != "idle" || s.LastSeq > 3)
	})
}

// journal returns the events of a session.
func (a accounts) journal(token, id string) string {
	a.t.Helper()
	var events json.RawMessage
	if status := a.send(request{token, "GET", "/v1/sessions/" + id + "/events", ""}, &events); status != 200 {
		a.t.Fatalf("events: %d", status)
	}
	return string(events)
}

// TestConnectionOverHTTP: a call waits for a connection. Its user authorizes in a browser, the
// server is killed before and in between, and the turn continues. Nobody else sees the account, and
// the tokens are nowhere.
func TestConnectionOverHTTP(t *testing.T) {
	t.Parallel()
	a := newAccounts(t)
	a.start()
	ada := a.tokenFor(`{"name":"ada","user":"ada","scopes":["read","write"]}`)
	bob := a.tokenFor(`{"name":"bob","user":"bob","scopes":["read","write"]}`)
	other := a.tokenFor(`{"name":"other","org":"acme","user":"ada","scopes":["read","write","admin"]}`)
	model := a.tokenFor(`{"name":"model","user":"ada","scopes":["read","write"],"agent":true}`)
	a.storeAgent()
	id := a.agentSession(a.url, ada)
	a.until(a.url, ada, id, "waiting_for_tool_results")
	a.kill()
	a.start()
	a.until(a.url, ada, id, "waiting_for_tool_results")

	if status := a.send(request{model, "POST", "/v1/connections/demo/authorize", "{}"}, nil); status != 403 {
		t.Errorf("an agent began an authorization: %d", status)
	}
	lost := a.begins(ada)
	flow := a.begins(ada)
	a.kill()
	a.start()
	answer, err := a.provider.Answer(lost.URL)
	if err != nil {
		t.Fatal(err)
	}
	stolen, _ := json.Marshal(engine.ConnectionAnswer{State: lost.State, Code: answer.Get("code")})
	for who, token := range map[string]string{"bob": bob, "another org": other} {
		if status := a.send(request{token, "POST", "/v1/connections:finish", string(stolen)}, nil); status != 404 {
			t.Errorf("%s finished the authorization of ada: %d", who, status)
		}
	}
	for step, want := range []string{"demo is connected", "was used before"} {
		if status, page, err := a.provider.Agree(flow.URL); err != nil || !strings.Contains(page, want) {
			t.Errorf("step %d: %d %s %v", step, status, page, err)
		}
	}
	a.until(a.url, ada, id, "idle")

	text := a.journal(ada, id)
	if !strings.Contains(text, "you sent Bearer") || !strings.Contains(text, "demo is connected now") {
		t.Errorf("the journal: %s", text)
	}
	if calls := a.provider.Calls(); len(calls) != 1 || !strings.HasPrefix(calls[0], "Bearer access-token") {
		t.Errorf("the API received %q", calls)
	}
	if own := a.list(ada, ""); len(own) != 1 || own[0].State != "ready" || own[0].User != "ada" || !own[0].OAuth || own[0].ExpiresAt.IsZero() {
		t.Errorf("ada sees %+v", own)
	}
	a.othersSeeNothing(bob, other)
	a.tokensAreNowhere(text)
	if status := a.send(request{ada, "DELETE", "/v1/connections/demo", ""}, nil); status >= 300 {
		t.Errorf("delete: %d", status)
	}
	if status := a.send(request{ada, "DELETE", "/v1/connections/demo", ""}, nil); status != 404 {
		t.Errorf("delete again: %d", status)
	}
}

// othersSeeNothing checks that another user, and another org, have no access to the account of ada,
// and that an administrator has.
func (a accounts) othersSeeNothing(bob, other string) {
	a.t.Helper()
	admin := a.tokenFor(`{"name":"admin","user":"boss","scopes":["read","write","admin"]}`)
	if all := a.list(admin, "?user=*"); len(all) != 1 {
		a.t.Errorf("the administrator sees %+v", all)
	}
	for who, token := range map[string]string{"bob": bob, "another org": other} {
		if all := a.list(token, ""); len(all) != 0 {
			a.t.Errorf("%s sees %+v", who, all)
		}
		if status := a.send(request{token, "DELETE", "/v1/connections/demo", ""}, nil); status != 404 {
			a.t.Errorf("%s deleted the connection of ada: %d", who, status)
		}
	}
	if status := a.send(request{bob, "GET", "/v1/connections?user=ada", ""}, nil); status != 403 {
		a.t.Errorf("bob lists the accounts of ada: %d", status)
	}
	if status := a.send(request{bob, "PUT", "/v1/connections/demo", `{"token":"x","user":"ada"}`}, nil); status != 403 {
		a.t.Errorf("bob connects the account of ada: %d", status)
	}
	if status := a.send(request{other, "DELETE", "/v1/connections/demo?user=ada", ""}, nil); status != 404 {
		a.t.Errorf("another org deleted the connection of ada: %d", status)
	}
}

// tokensAreNowhere checks that no token stands in a journal, in the log, or in the clear in a file.
func (a accounts) tokensAreNowhere(journal string) {
	a.t.Helper()
	for _, token := range append(a.provider.Tokens(), oauthtest.ClientSecret) {
		if strings.Contains(journal, token) {
			a.t.Errorf("the journal shows %s", token)
		}
		for _, path := range filesWith(a.t, a.data, token) {
			if filepath.Base(path) != oauthFile {
				a.t.Errorf("%s contains %s", path, token)
			}
		}
	}
	said, err := os.ReadFile(a.talk.Name())
	if err != nil || bytes.Contains(said, []byte("of-the-test")) {
		a.t.Errorf("the log shows a token: %s, %v", said, err)
	}
}

// TestConnectionOfTwoServers: two servers share a store, and use the connection of one user. One of
// them refreshes its token, and both use the new one.
func TestConnectionOfTwoServers(t *testing.T) {
	t.Parallel()
	a := newAccounts(t)
	database := pgtest.Database(t, nil)
	a.serve = []string{"--database", database}
	other := filepath.Join(t.TempDir(), "other")
	a.configure(other, "")
	a.output("session", "new", "--model", "scripted:"+filepath.Join(a.work, "agent.yaml")) // creates the keyring, which both servers need
	for _, name := range []string{"keyring", "egress.json"} {
		text, err := os.ReadFile(filepath.Join(a.data, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(other, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a.start()
	p := &places{t: t, root: a.work}
	second := p.serve("--data", other, "--database", database)
	a.storeAgent()
	ada := a.tokenFor(`{"name":"ada","user":"ada","scopes":["read","write"]}`)
	a.provider.Live(2) // a second later it has to be refreshed
	if status, page, err := a.provider.Agree(a.begins(ada).URL); err != nil || status != 200 {
		t.Fatalf("%d %s %v", status, page, err)
	}
	a.provider.Live(3600)
	expires := a.list(ada, "")[0].ExpiresAt
	untilTrue(t, func() bool { return time.Now().After(expires) })
	release := a.provider.Hold(t)
	first := a.agentSession(a.url, ada)
	untilTrue(t, func() bool { return a.provider.Refreshes() == 1 })
	ids := map[string]string{first: a.url}
	for _, server := range []string{a.url, second, second} {
		ids[a.agentSession(server, ada)] = server
	}
	release()
	for id, server := range ids {
		a.until(server, ada, id, "idle")
	}

	calls := a.provider.Calls()
	if a.provider.Refreshes() != 1 || len(calls) != len(ids) {
		t.Errorf("%d refreshes, and the API received %q", a.provider.Refreshes(), calls)
	}
	for _, call := range calls {
		if call != calls[0] {
			t.Errorf("the API received different tokens: %q", calls)
		}
	}
}

// TestConnectionOnTerminal: the command line authorizes over an address of this machine, and a run
// that waits for the connection continues. A token from stdin does it, too, and the list shows
// none.
func TestConnectionOnTerminal(t *testing.T) {
	t.Parallel()
	a := newAccounts(t)
	script := "scripted:" + filepath.Join(a.work, "agent.yaml")
	stuck := a.command("run", "--model", script, "--await-connections", "--no-input", "go")
	said, err := stuck.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "perdure connection add") {
		t.Fatalf("a run without the connection: %v %s", err, said)
	}
	add := a.command("connection", "add", "demo")
	talk, err := add.StderrPipe()
	if err == nil {
		err = add.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(talk)
	for lines.Scan() && !strings.Contains(lines.Text(), "/authorize?") {
	}
	address := strings.TrimSpace(lines.Text())
	back := strings.Replace(address, a.provider.URL+"/authorize", "http://"+redirectHost(t, address)+"/callback", 1)
	resp, err := http.Get(strings.Replace(back, "state=", "state=x", 1)) // some page sends a browser
	if err != nil || resp.StatusCode != 404 {
		t.Errorf("another state: %v %v", resp, err)
	}
	if status, page, err := a.provider.Agree(address); err != nil || status != 200 || !strings.Contains(page, "close this page") {
		_ = add.Process.Kill() // it waits for an answer
		t.Errorf("%d %s %v", status, page, err)
	}
	for lines.Scan() {
	}
	if err := add.Wait(); err != nil {
		t.Fatal(err)
	}
	if said := a.output("run", "--last"); !strings.Contains(said, "you sent Bearer <redacted") {
		t.Errorf("the run with the connection: %s", said)
	}
	if said := a.output("connection", "list"); !strings.Contains(said, "demo") || !strings.Contains(said, "ready") {
		t.Errorf("listed %s", said)
	}
	a.output("connection", "test", "demo")

	token := a.command("connection", "add", "demo", "--token", "--host", "127.0.0.1", "-o", "json")
	token.Stdin = strings.NewReader("personal-token-of-the-test\n")
	if said, err := token.CombinedOutput(); err != nil || strings.Contains(string(said), "personal-token") {
		t.Errorf("a token from stdin: %v %s", err, said)
	}
	a.output("run", "--model", script, "go")
	if calls := a.provider.Calls(); calls[len(calls)-1] != "Bearer personal-token-of-the-test" {
		t.Errorf("the API received %q", calls)
	}
	a.output("connection", "delete", "demo", "--yes")
	if said := a.output("run", "--model", script, "go"); !strings.Contains(said, `"connection_required":"demo"`) {
		t.Errorf("a run without the connection: %s", said)
	}
}

// redirectHost returns the host and port of the address to which the provider sends the browser.
func redirectHost(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	back, err := url.Parse(u.Query().Get("redirect_uri"))
	if err != nil {
		t.Fatal(err)
	}
	return back.Host
}

// storeAgent stores the agent whose calls wait for connections.
func (a accounts) storeAgent() {
	a.t.Helper()
	body := fmt.Sprintf(`{"model":"scripted:%s","tools":["web_fetch"],"await_connections":true}`, filepath.Join(a.work, "agent.yaml"))
	req, err := http.NewRequest("PUT", a.url+"/v1/agents/fetcher", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("If-None-Match", "*")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 201 && resp.StatusCode != 200 {
		text, _ := io.ReadAll(resp.Body)
		a.t.Fatalf("no agent: %d %s", resp.StatusCode, text)
	}
}

// agentSession starts a session of the stored agent on a server, and sends it a message.
func (a accounts) agentSession(server, token string) string {
	a.t.Helper()
	var made engine.Session
	if status := sendTo(a.t, server, request{token, "POST", "/v1/sessions", `{"agent_id":"fetcher"}`}, &made); status != 201 {
		a.t.Fatalf("no session: %d", status)
	}
	a.message(server, token, string(made.ID))
	return string(made.ID)
}
