package ui

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzParseSignIn: what is accepted has exactly one field, and fits into a header.
func FuzzParseSignIn(f *testing.F) {
	for _, seed := range []string{`{"token":"perdure_x"}`, `{"link":"ABC"}`, `{}`, `{"token":"a\r\nb"}`, `{"token":"a","token":"b"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := parseSignIn(body)
		if err != nil {
			return
		}
		if (in.Link == "") == (in.Token == "") || strings.ContainsAny(in.Token, "\r\n \x00") {
			t.Errorf("%q: got %+v", body, in)
		}
	})
}

// FuzzCredential: a cookie means the same after it was read and written.
func FuzzCredential(f *testing.F) {
	for _, seed := range []string{"link.perdure_x", "token.perdure_x", "token.", "x", "link.token.x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parseCredential(text)
		if ok && (c.secret == "" || c.String() != text) {
			t.Errorf("%q: got %+v", text, c)
		}
		r := httptest.NewRequest("GET", "/v1/sessions", nil)
		r.Host = text
		r.Header.Set("Cookie", "__Host-perdure="+text)
		_, _ = credentialOf(r) // it does not panic
	})
}

func TestAcceptsGzip(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{"": false, "gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "identity": false, "gzip ; q=0": false} {
		if got := acceptsGzip(header); got != want {
			t.Errorf("%q: got %v", header, got)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "localhost:7373": true, "a.localhost:1": true, "127.0.0.1": true, "127.9.9.9:80": true, "[::1]:7373": true,
		"example.com": false, "localhost.example.com": false, "10.0.0.1:7373": false, "": false, "127.0.0.1.example.com": false,
	} {
		if got := isLoopback(host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
}
