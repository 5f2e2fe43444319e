package app

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestS15CookiesStaySecret: the token of a browser, and the code of its link, stand in no log, not
// in the audit log and in no file of the data directory. Once it is revoked, its cookie is worth
// nothing, also after a kill of the server, which in turn ends no sign-in.
func TestS15CookiesStaySecret(t *testing.T) {
	t.Parallel()
	d := newDoorway(t, nil)
	d.serve = []string{"--verbose"}
	d.start()
	said, err := d.command("ui", "--no-open").Output()
	_, code, ok := strings.Cut(strings.TrimSpace(string(said)), "#link=")
	if err != nil || !ok {
		t.Fatalf("got %q, %v", said, err)
	}
	ask := func(method, path, body, cookie string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Cookie", cookie)
		got, err := d.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return got
	}
	in := ask("POST", "/ui/session", `{"link":"`+code+`"}`, "")
	if in.StatusCode != 204 || len(in.Cookies()) != 1 {
		t.Fatalf("got %d", in.StatusCode)
	}
	cookie := in.Cookies()[0].Name + "=" + in.Cookies()[0].Value
	secret := strings.TrimPrefix(in.Cookies()[0].Value, "link.")
	for path, status := range map[string]int{"/v1/sessions": 200, "/v1/sessions/missing": 404, "/v1/audit": 200, "/mcp": 401, "/metrics": 401, "/v1/sessions?token=" + secret: 200} {
		if got := ask("GET", path, "", cookie); got.StatusCode != status && !strings.Contains(path, "token=") {
			t.Errorf("%s: got %d, want %d", path, got.StatusCode, status)
		}
	}
	if again := ask("POST", "/ui/session", `{"link":"`+code+`"}`, ""); again.StatusCode != 401 {
		t.Errorf("the link a second time: got %d", again.StatusCode)
	}

	d.kill()
	d.start()
	if got := ask("GET", "/v1/sessions", "", cookie); got.StatusCode != 200 {
		t.Errorf("after a kill: got %d", got.StatusCode)
	}
	if said, err := d.command("token", "revoke", "web UI", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if got := ask("GET", "/v1/sessions", "", cookie); got.StatusCode != 401 {
		t.Errorf("after the revocation: got %d", got.StatusCode)
	}
	d.stop()

	logged, err := os.ReadFile(d.talk.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{secret, code} {
		if bytes.Contains(logged, []byte(word)) {
			t.Errorf("the log contains %s:\n%s", word, logged)
		}
		err := filepath.WalkDir(d.data, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s contains %s", path, word)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
