//go:build soak

package app

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nginxBrowser is a browser that reaches a server through nginx, below a path.
type nginxBrowser struct {
	d            *doorway
	client       *http.Client
	front, below string
}

// noSecretIn checks the log of nginx.
func noSecretIn(t *testing.T, path string) {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(log), "/perdure/ui/session") || regexp.MustCompile(`perdure_[\w-]{20}|link=`).Match(log) {
		t.Errorf("%v, or nginx logs a secret:\n%s", err, log)
	}
}

// ask sends one request, and follows no redirect.
func (b nginxBrowser) ask(t *testing.T, what, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+b.front+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}
	return resp, text.String()
}

// pages checks that each page that is opened by its address loads its files from below the path.
func (b nginxBrowser) pages(t *testing.T) {
	t.Helper()
	below, origin := b.below, "https://"+b.front
	if got, _ := b.ask(t, "GET "+below+"/", ""); got.StatusCode != 302 || !slices.Contains([]string{below + "/ui/", "ui/", origin + below + "/ui/"}, got.Header.Get("Location")) {
		t.Errorf("below %q: the root leads to %d %q", below, got.StatusCode, got.Header.Get("Location"))
	}
	for _, page := range []string{"", "sessions", "sessions/session_1", "tasks/task_1", "a/b/c/d"} {
		got, text := b.ask(t, "GET "+below+"/ui/"+page, "")
		base := regexp.MustCompile(`<base href="([./]+)"`).FindStringSubmatch(text)
		script := regexp.MustCompile(`src="\./(assets/[^"]+\.js)"`).FindStringSubmatch(text)
		if got.StatusCode != 200 || base == nil || script == nil || got.Header.Get("Content-Security-Policy") == "" {
			t.Fatalf("below %q: %q: got %d %.300s", below, page, got.StatusCode, text)
		}
		at, err := got.Request.URL.Parse(base[1])
		if err == nil {
			at, err = at.Parse(script[1])
		}
		if err != nil {
			t.Fatal(err)
		}
		file := at.Path
		if asset, _ := b.ask(t, "GET "+file, ""); asset.StatusCode != 200 || !strings.HasPrefix(file, below+"/ui/assets/") {
			t.Errorf("below %q: %q loads %s: %d", below, page, file, asset.StatusCode)
		}
	}
}

// signIn signs a browser in by a link, and uses its cookie: over TLS it is pinned to its host.
func (b nginxBrowser) signIn(t *testing.T) {
	t.Helper()
	b.pages(t)
	below, origin := b.below, "https://"+b.front
	ask := func(method, path, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		return b.ask(t, method+" "+path, body, headers...)
	}

	said, err := b.d.command("ui", "--no-open").Output()
	address, code, ok := strings.Cut(strings.TrimSpace(string(said)), "#link=")
	if err != nil || !ok || address != origin+"/perdure/ui/" {
		t.Fatalf("got %q, %v", said, err)
	}
	own := []string{"Origin", origin, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"}
	in, text := ask("POST", below+"/ui/session", `{"link":"`+code+`"}`, own...)
	if in.StatusCode != 204 || len(in.Cookies()) != 1 {
		t.Fatalf("below %q: got %s", below, text)
	}
	cookie := in.Cookies()[0]
	if cookie.Name != "__Host-perdure" || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("below %q: got the cookie %s", below, in.Header.Get("Set-Cookie"))
	}
	signedIn := []string{"Cookie", cookie.Name + "=" + cookie.Value}
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{append(own, signedIn...), 200},
		{append([]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, signedIn...), 401},
		{append([]string{"Sec-Fetch-Site", "same-site", "Origin", origin + "1"}, signedIn...), 401},
	} {
		if got, text := ask("GET", below+"/v1/sessions", "", c.headers...); got.StatusCode != c.status {
			t.Errorf("below %q: with %v got %s", below, c.headers, text)
		}
	}
	if out, text := ask("DELETE", below+"/ui/session", "", append(own, signedIn...)...); out.StatusCode != 204 {
		t.Errorf("below %q: got %s", below, text)
	}
	if got, text := ask("GET", below+"/v1/sessions", "", append(own, signedIn...)...); got.StatusCode != 401 {
		t.Errorf("below %q: the cookie of a browser that signed out: got %s", below, text)
	}
}
