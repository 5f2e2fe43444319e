package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/raw"
)

// TestHealth is the table of answers to doctor --health, for the health check of a container.
func TestHealth(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		body   string
		code   int
		out    string
		talk   string
	}{
		{"ready", 200, `{"status":"ok","checks":[{"name":"store","ok":true,"detail":""}],"new":1}`, exitOK, "ok\n", ""},
		{"a check failed", 503, `{"status":"failed","checks":[{"name":"worker","ok":true},{"name":"store","ok":false,"detail":"not responding: see the log"}]}`, exitError, "failed\n", "not ready: store: not responding"},
		{"stopping", 503, `{"status":"draining","checks":[]}`, exitError, "draining\n", "not ready: draining"},
		{"another program", 200, `<html>`, exitUnreachable, "", "not that of a perdure server"},
		{"a proxy without its server", 502, `{}`, exitUnreachable, "", "not that of a perdure server"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "" {
					t.Errorf("got %s %s with %v", r.Method, r.URL.Path, r.Header)
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			defer server.Close()
			wire := func(context.Context, OpenOptions) (raw.Client, error) {
				return raw.Client{Base: server.URL, Token: "secret", HTTP: server.Client()}, nil
			}

			code, out, talk := command{args: "doctor --health", wire: wire}.run(t.Context())

			if code != test.code || out != test.out || !strings.Contains(talk, test.talk) || test.talk == "" && talk != "" {
				t.Errorf("got %d, %q, %q", code, out, talk)
			}
		})
	}
	nobody := func(context.Context, OpenOptions) (raw.Client, error) { return raw.Client{}, perdure.NotFound }
	code, out, talk := command{args: "doctor --health", wire: nobody}.run(t.Context())
	if code != exitUnreachable || out != "" || !strings.Contains(talk, "no server is running on the data directory /data") {
		t.Errorf("got %d, %q, %q", code, out, talk)
	}
}

// FuzzReadiness: no answer of another program makes a server look ready.
func FuzzReadiness(f *testing.F) {
	f.Add([]byte(`{"status":"ok","checks":[{"name":"store","ok":false,"detail":"x"}]}`))
	f.Add([]byte(`{"status":"ok","status":"failed"}`))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := readReadiness(text)
		if err != nil {
			return
		}
		failed := 0
		for _, check := range r.Checks {
			if !check.OK {
				failed++
			}
		}
		if r.Status == "" || (failed > 0) != (r.failed() != "") {
			t.Errorf("%q: %+v", text, r)
		}
	})
}
