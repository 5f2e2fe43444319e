//go:build soak

package main

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// signInThroughNginx signs a browser in by a link below a path, and uses its cookie: over TLS it is
// pinned to its host. Each page that is opened by its address loads its files from below the path.
func signInThroughNginx(t *testing.T, d *doorway, client *http.Client, front, below string) {
	t.Helper()
	origin := "https://" + front
	ask := func(method, path, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, origin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Transport.RoundTrip(r)
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

	if got, _ := ask("GET", below+"/", ""); got.StatusCode != 302 || !slices.Contains([]string{below + "/ui/", "ui/", origin + below + "/ui/"}, got.Header.Get("Location")) {
		t.Errorf("below %q: the root leads to %d %q", below, got.StatusCode, got.Header.Get("Location"))
	}
	for _, page := range []string{"", "sessions", "sessions/session_1", "tasks/task_1", "a/b/c/d"} {
		got, text := ask("GET", below+"/ui/"+page, "")
		base := regexp.MustCompile(`<base href="([./]+)"`).FindStringSubmatch(text)
		script := regexp.MustCompile(`src="\./(assets/[^"]+\.js)"`).FindStringSubmatch(text)
		if got.StatusCode != 200 || base == nil || script == nil || got.Header.Get("Content-Security-Policy") == "" {
			t.Fatalf("below %q: %q: got %d %.300s", below, page, got.StatusCode, text)
		}
		file := got.Request.URL.JoinPath("../" + base[1] + script[1]).Path
		if page == "" {
			file = got.Request.URL.JoinPath(base[1] + script[1]).Path
		}
		if asset, _ := ask("GET", file, ""); asset.StatusCode != 200 || !strings.HasPrefix(file, below+"/ui/assets/") {
			t.Errorf("below %q: %q loads %s: %d", below, page, file, asset.StatusCode)
		}
	}

	said, err := d.command("ui", "--no-open").Output()
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
		{append([]string{"Sec-Fetch-Site", "same-site", "Origin", "https://" + front + "1"}, signedIn...), 401},
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
