package ui_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestS15EveryResponse: whatever the UI answers, a browser runs no script of others in it, shows it
// in no frame, and tells no other site of it.
func TestS15EveryResponse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cookie := header(r.signedIn(`{"token":"` + rootToken + `"}`))
	for what, status := range map[string]int{
		"GET /": 302, "GET /ui": 302, "GET /ui/": 200, "HEAD /ui/sessions/x": 200, "GET /ui/../etc/passwd": 200, "GET /ui/%2e%2e%2f": 200,
		"GET /ui/<script>alert(1)</script>": 200, "GET /ui/assets/missing.js": 404, "POST /ui/": 405, "GET /ui/session": 405,
		"DELETE /ui/session": 204, "POST /ui/session": 400,
	} {
		got := r.do(strings.ReplaceAll(strings.ReplaceAll(what, "<", "%3C"), ">", "%3E"), "", "Cookie", cookie)
		if got.StatusCode != status {
			t.Errorf("%s: got %d", what, got.StatusCode)
		}
		policy := got.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "base-uri 'self'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q has no %s", what, policy, part)
			}
		}
		if len(got.Header.Values("Content-Security-Policy")) != 1 || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("%s: got the policy %q", what, got.Header.Values("Content-Security-Policy"))
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": ""} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %s is %q", what, name, got.Header.Get(name))
			}
		}
		if body := text(t, got); strings.Contains(body, "alert(1)") {
			t.Errorf("%s: the path is part of the page: %.300s", what, body)
		}
	}
}

// TestS15DataIsNoPage: a file that a tool wrote, opened by a signed-in browser, has no rights of
// this origin. A client with a token of its own gets the response as it is.
func TestS15DataIsNoPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cookie := header(r.signedIn(`{"token":"` + rootToken + `"}`))
	got := r.do("GET /v1/sessions/x/files/page.html", "", "Cookie", cookie, "Sec-Fetch-Site", "none", "Sec-Fetch-Dest", "document")
	policy := got.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "sandbox;") || strings.Contains(policy, "allow-") || got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("X-Got") == "" {
		t.Errorf("got %v", got.Header)
	}
	if got := r.do("GET /v1/sessions", "", "Authorization", "Bearer other"); got.Header.Get("Content-Security-Policy") != "" {
		t.Errorf("got %v", got.Header)
	}
}

// TestS15Hosts: a name that leads here by accident or by an attack (DNS rebinding) signs nobody in
// over plain HTTP, headers of a proxy that anybody can send change nothing, and no address that the
// server answers contains the name.
func TestS15Hosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := `{"token":"` + rootToken + `"}`
	for _, host := range []string{"evil.example", "evil.example:7373", "127.0.0.1.evil.example:7373", "localhost.evil.example", "0.0.0.0:7373", "[::]:7373", "127.1:7373", "2130706433:7373", "", ":7373", "localhost@evil.example"} {
		got := r.do("POST /ui/session", body, "Host", host, "Origin", "http://"+host, "Sec-Fetch-Site", "same-origin")
		if got.StatusCode != 403 || len(got.Cookies()) != 0 {
			t.Errorf("%q signs in: got %d %v", host, got.StatusCode, got.Cookies())
		}
		cookie := (&http.Cookie{Name: "perdure-7373", Value: "token." + rootToken}).String()
		if got := r.do("GET /v1/sessions", "", "Host", host, "Cookie", cookie); got.Header.Get("X-Got") != "" {
			t.Errorf("%q: a cookie for this machine counts", host)
		}
		if got := r.do("GET /", "", "Host", host); got.Header.Get("Location") != "ui/" {
			t.Errorf("%q: leads to %q", host, got.Header.Get("Location"))
		}
	}
	// a proxy without TLS names this machine as the host, and the browser says where it really is
	if got := r.do("POST /ui/session", body, "Origin", "http://perdure.example.com", "Sec-Fetch-Site", "same-origin"); got.StatusCode != 403 || len(got.Cookies()) != 0 {
		t.Errorf("through a proxy without TLS: got %d %v", got.StatusCode, got.Cookies())
	}
	for _, forged := range [][]string{
		{"X-Forwarded-Proto", "https"}, {"Forwarded", "proto=https;host=evil.example"}, {"X-Forwarded-Host", "evil.example"},
		{"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-Prefix", "//evil.example"}, {"X-Original-URL", "/ui/link"},
	} {
		got := r.do("POST /ui/session", body, append(forged, "Host", "192.168.1.5:7373", "Origin", "http://192.168.1.5:7373")...)
		if got.StatusCode != 403 {
			t.Errorf("%v: got %d", forged, got.StatusCode)
		}
		if got := r.signedIn(body, forged...); got.Name != "perdure-7373" || got.Secure || got.Domain != "" {
			t.Errorf("%v: got %v", forged, got)
		}
		if got := r.do("GET /", "", forged...); got.Header.Get("Location") != "ui/" {
			t.Errorf("%v: leads to %q", forged, got.Header.Get("Location"))
		}
	}
}

// TestS15EndedCookies: the cookie of a token that was revoked signs nobody in, can still be
// removed, and a link does not bring it back. Broken cookies are as none.
func TestS15EndedCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	code := r.linkCode()
	cookie := r.signedIn(`{"link":"` + code + `"}`)
	if got := r.do("DELETE /ui/session", "", "Cookie", header(cookie)); got.StatusCode != 204 {
		t.Fatalf("got %d", got.StatusCode)
	}
	secret := strings.TrimPrefix(cookie.Value, "link.")
	for _, body := range []string{`{"link":"` + code + `"}`, `{"token":"` + secret + `"}`} {
		if got := r.do("POST /ui/session", body); got.StatusCode != 401 || len(got.Cookies()) != 0 {
			t.Errorf("got %d %v", got.StatusCode, got.Cookies())
		}
	}
	out := r.do("DELETE /ui/session", "", "Cookie", header(cookie))
	if out.StatusCode != 204 || len(out.Cookies()) != 1 || out.Cookies()[0].MaxAge >= 0 || out.Cookies()[0].Value != "" {
		t.Errorf("got %d %v", out.StatusCode, out.Cookies())
	}
	// a cookie never revokes what a person entered, nor the token of the data directory
	r.do("DELETE /ui/session", "", "Cookie", "perdure-7373=link."+rootToken)
	r.signedIn(`{"token":"` + rootToken + `"}`)
	for _, value := range []string{"", "link.", "token.", "other." + rootToken, rootToken, "Bearer " + rootToken} {
		if got := r.do("GET /v1/sessions", "", "Cookie", "perdure-7373="+value); got.Header.Get("X-Got") != "" {
			t.Errorf("%q: the API got %q", value, got.Header.Get("X-Got"))
		}
	}
}
