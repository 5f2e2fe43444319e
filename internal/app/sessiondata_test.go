package app

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// dotPNG is an image of one pixel, in base64.
const dotPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// dataServer is a server of the real program.
type dataServer struct {
	t     *testing.T
	data  string
	cmd   *exec.Cmd
	url   string
	token string
}

// startDataServer starts a server on a data directory.
func startDataServer(t *testing.T, data string) *dataServer {
	t.Helper()
	s := &dataServer{t: t, data: data, cmd: exec.Command("perdure", "serve", "--data", data, "--addr", "127.0.0.1:0")}
	s.cmd.Stderr = os.Stderr
	s.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=k")
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	s.url, s.token = strings.TrimSpace(url), strings.TrimSpace(string(token))
	return s
}

func (s *dataServer) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
}

// dataRequest is a request to a dataServer.
type dataRequest struct {
	method, path string
	token        string // empty: that of the data directory
	contentType  string
	body         []byte
}

// ask sends a request and returns its answer.
func (s *dataServer) ask(q dataRequest) (int, []byte) {
	s.t.Helper()
	req, err := http.NewRequest(q.method, s.url+q.path, bytes.NewReader(q.body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+cmp.Or(q.token, s.token))
	if q.contentType != "" {
		req.Header.Set("Content-Type", q.contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, text
}

// want sends a request that succeeds, and decodes its answer.
func (s *dataServer) want(into any, method, path, body string) {
	s.t.Helper()
	kind := ""
	if body != "" {
		kind = "application/json"
	}
	status, text := s.ask(dataRequest{method: method, path: path, contentType: kind, body: []byte(body)})
	if status/100 != 2 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			s.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

// cli runs the program on the data directory, which its server holds.
func (s *dataServer) cli(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("perdure", append([]string{"--data", s.data}, args...)...)
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=k")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("perdure %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// pictureServer writes an MCP server on stdio whose only tool returns an image.
func pictureServer(t *testing.T) (script string) {
	t.Helper()
	script = filepath.Join(t.TempDir(), "picture.sh")
	text := `say() { printf '%s\n' "$1"; }
while read -r line; do
	id=$(say "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\("[^"]*"\).*/\1/p')
	case $line in
	*'"method":"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"art","version":"1"}}}' ;;
	*'"method":"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"draw","inputSchema":{"type":"object"}}]}}' ;;
	*'"method":"tools/call"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"drawn"},{"type":"image","mimeType":"image/png","data":"` + dotPNG + `"}]}}' ;;
	*) [ -z "$id" ] || say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"not here"}}' ;;
	esac
done
`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return script
}

// shownImages returns the images that a model request shows, and its texts.
func shownImages(messages []perdure.Message) (images []string, texts string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			texts += p.Text + "\n"
			if p.Image != nil {
				images = append(images, p.Image.Base64)
			}
			if p.Result != nil {
				for _, i := range p.Result.Images {
					images = append(images, i.Base64)
				}
			}
		}
	}
	return images, texts
}

// TestImagesReachTheModel: an image that was uploaded over HTTP or by the command line, or that a
// tool returned, reaches the model server, is a reference in the journal, and is unavailable once
// it is deleted.
func TestImagesReachTheModel(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse("look", []byte("rules:\n  - when: {user_contains: draw, last_role: user}\n    calls: [{name: art__draw, args: {}}]\nsteps:\n  - {text: seen, repeat: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	provider := openaitest.New(script, openaitest.Config{})
	behind := httptest.NewServer(provider)
	t.Cleanup(behind.Close)
	data := shortDir(t)
	if err := os.WriteFile(filepath.Join(data, "mcp.json"), fmt.Appendf(nil, `{"mcpServers": {"art": {"command": "sh", "args": [%q]}}}`, pictureServer(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startDataServer(t, data)
	id := s.cli("session", "new", "--model", "openai:look", "--base-url", behind.URL+"/v1", "--capability", "mcp_art", "--title", "pics", "-o", "name")
	id = id[strings.LastIndex(id, "session_"):]
	session := "/v1/sessions/" + id
	raw, err := base64.StdEncoding.DecodeString(dotPNG)
	if err != nil {
		t.Fatal(err)
	}
	last := func() (images []string, texts string) {
		all := provider.Requests()
		return shownImages(all[len(all)-1].Messages)
	}

	status, text := s.ask(dataRequest{method: "POST", path: session + "/images?filename=dot.png", contentType: "image/png", body: raw})
	var stored engine.Image
	if err := json.Unmarshal(text, &stored); err != nil || status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	s.cli("session", "send", id, "--image", string(stored.ID), "--wait", "what is it")
	if images, _ := last(); len(images) != 1 || images[0] != dotPNG {
		t.Errorf("the model saw %d images", len(images))
	}

	file := filepath.Join(t.TempDir(), "dot.png")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s.cli("session", "send", id, "--image", file, "--wait", "and this")
	if images, _ := last(); len(images) != 2 {
		t.Errorf("the model saw %d images, want both", len(images))
	}
	s.cli("session", "send", id, "--wait", "draw me one")
	if images, _ := last(); len(images) != 3 || images[2] != dotPNG {
		t.Errorf("the model saw %d images, want that of the tool too", len(images))
	}
	if journal := s.cli("event", "list", id, "-o", "jsonl"); strings.Contains(journal, dotPNG[:40]) || !strings.Contains(journal, `"image_file":{"id":"`+string(stored.ID)+`"}`) {
		t.Error("the journal has the bytes of an image, or no reference")
	}
	var all struct{ Items []engine.Image }
	s.want(&all, "GET", session+"/images", "")
	if len(all.Items) != 2 { // the tool's has no name; that of the command line is the uploaded one
		t.Errorf("stored %+v", all.Items)
	}

	for _, i := range all.Items {
		s.cli("image", "rm", id, string(i.ID), "--yes")
	}
	s.cli("session", "send", id, "--wait", "and now")
	if images, texts := last(); len(images) != 0 || strings.Count(texts, "[image unavailable]") != 3 {
		t.Errorf("after they were deleted the model saw %d images and %q", len(images), texts)
	}
}

// TestUploadKilled: a server that is killed during an upload keeps the image whole or not at all.
func TestUploadKilled(t *testing.T) {
	t.Parallel()
	data := shortDir(t)
	s := startDataServer(t, data)
	id := s.cli("session", "new", "--model", "scripted:"+emptyScript(t), "-o", "name")
	id = id[strings.LastIndex(id, "session_"):]
	raw, err := base64.StdEncoding.DecodeString(dotPNG)
	if err != nil {
		t.Fatal(err)
	}
	big := append(raw, make([]byte, 8<<20)...)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/sessions/%s/images HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n", id, s.token, len(big))
	if _, err := conn.Write(big[:len(big)/2]); err != nil {
		t.Fatal(err)
	}
	s.kill()

	s = startDataServer(t, data)
	var all struct{ Items []engine.Image }
	s.want(&all, "GET", "/v1/sessions/"+id+"/images", "")
	if len(all.Items) != 0 {
		t.Errorf("half an upload is stored: %+v", all.Items)
	}
	ended := make(chan struct{})
	go func() { // it is killed at some moment of the upload
		defer close(ended)
		req, err := http.NewRequest("POST", s.url+"/v1/sessions/"+id+"/images", bytes.NewReader(big))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+s.token)
		req.Header.Set("Content-Type", "image/png")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Millisecond):
	}
	s.kill()
	<-ended

	s = startDataServer(t, data)
	s.want(&all, "GET", "/v1/sessions/"+id+"/images", "")
	for _, i := range all.Items {
		if status, text := s.ask(dataRequest{method: "GET", path: "/v1/sessions/" + id + "/images/" + string(i.ID)}); status != 200 || !bytes.Equal(text, big) {
			t.Errorf("%s: %d with %d bytes, want %d", i.ID, status, len(text), len(big))
		}
	}
}

// emptyScript is a model that says one word.
func emptyScript(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "word.yaml")
	if err := os.WriteFile(path, []byte("steps:\n  - {text: ok, repeat: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGrepIsBounded: a search in 100 MB of files reads a part, says so, and does not run on.
func TestGrepIsBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	line := strings.Repeat("x", 99) + "\n"
	for i := range 220 {
		content := strings.Repeat(line, 4800) + fmt.Sprintf("needle %d\n", i)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%03d.txt", i)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startDataServer(t, shortDir(t))
	id := s.cli("session", "new", "--model", "scripted:"+emptyScript(t), "--workspace", folder, "-o", "name")
	id = id[strings.LastIndex(id, "session_"):]

	var found engine.FileMatches
	s.want(&found, "GET", "/v1/sessions/"+id+"/files:grep?pattern=needle", "")

	if len(found.Matches) != 10 || found.Matches[0].Path != "/f000.txt" || found.Matches[0].Line != 4801 || !found.Truncated || len(found.Skipped) != 101 {
		t.Errorf("got %d matches, truncated %t, %d skipped", len(found.Matches), found.Truncated, len(found.Skipped))
	}
	s.want(&found, "GET", "/v1/sessions/"+id+"/files:grep?pattern=NEEDLE&ignore_case=true&glob=f21*.txt&limit=3", "")
	if len(found.Matches) != 3 || !found.Truncated {
		t.Errorf("got %+v", found.Matches)
	}
	out := s.cli("file", "grep", id, "needle 7$", "--glob", "f007.txt")
	if !strings.Contains(out, "/f007.txt:4801:needle 7") {
		t.Errorf("the command printed %s", out)
	}
	if status, text := s.ask(dataRequest{method: "GET", path: "/v1/sessions/" + id + "/files:grep?pattern=("}); status != 400 || !strings.Contains(string(text), "missing closing )") {
		t.Errorf("a wrong pattern: %d %s", status, text)
	}
}

// TestSessionDataOfOrgs: a token of another org sees no image, file, database or payment of a
// session, and an agent's token cannot resolve a payment.
func TestSessionDataOfOrgs(t *testing.T) {
	t.Parallel()
	s := startDataServer(t, shortDir(t))
	model := filepath.Join(t.TempDir(), "sql.yaml")
	if err := os.WriteFile(model, []byte("steps:\n  - calls: [{name: sql_execute, args: {sql: 'CREATE TABLE t AS SELECT 7 AS n'}}]\n  - {text: made, repeat: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cli("run", "--model", "scripted:"+model, "--capability", "session_sql", "make a table")
	id := s.cli("session", "list", "-o", "name")
	raw, err := base64.StdEncoding.DecodeString(dotPNG)
	if err != nil {
		t.Fatal(err)
	}
	_, text := s.ask(dataRequest{method: "POST", path: "/v1/sessions/" + id + "/images", contentType: "image/png", body: raw})
	var stored engine.Image
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	token := func(body string) string {
		var made struct{ Token string }
		s.want(&made, "POST", "/v1/tokens", body)
		return made.Token
	}
	stranger, agent := token(`{"name":"stranger","org":"acme","scopes":["read","write","approve","admin"]}`), token(`{"name":"worker","agent":true,"scopes":["read","write"]}`)
	session := "/v1/sessions/" + id
	for path, body := range map[string]string{
		session + "/images": "", session + "/images/" + string(stored.ID): "", session + "/files:grep?pattern=a": "",
		session + "/databases": "", session + "/databases/main/dump": "", session + "/databases/main/query": `{"sql":"SELECT n FROM t"}`,
	} {
		method, kind := "GET", ""
		if body != "" {
			method, kind = "POST", "application/json"
		}
		if status, text := s.ask(dataRequest{method, path, stranger, kind, []byte(body)}); status != 404 {
			t.Errorf("a stranger reads %s: %d %s", path, status, text)
		}
		if status, text := s.ask(dataRequest{method, path, agent, kind, []byte(body)}); status != 200 {
			t.Errorf("the own org cannot read %s: %d %s", path, status, text)
		}
	}
	if status, _ := s.ask(dataRequest{method: "DELETE", path: session + "/images/" + string(stored.ID), token: stranger}); status != 404 {
		t.Errorf("a stranger deletes an image: %d", status)
	}
	if status, _ := s.ask(dataRequest{"POST", "/v1/payments/pay_x_1/resolve", agent, "application/json", []byte(`{"outcome":"happened"}`)}); status != 403 {
		t.Errorf("an agent's token resolves: %d, want 403", status)
	}
	if out := s.cli("sql", "query", id, "SELECT n FROM t", "-o", "json"); !strings.Contains(out, "7") {
		t.Errorf("through the server: %s", out)
	}
	s.kill()
	if out := s.cli("sql", "query", id, "SELECT n FROM t", "-o", "json"); !strings.Contains(out, "7") {
		t.Errorf("without the server: %s", out)
	}
	if out := s.cli("sql", "dump", id); !strings.Contains(out, `INSERT INTO "t"("n") VALUES(7);`) {
		t.Errorf("dumped %s", out)
	}
}
