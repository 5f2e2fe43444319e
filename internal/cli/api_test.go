package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/raw"
)

// TestC04API is the table of statuses and exit codes. The body of an error is printed on stdout and
// its id on stderr.
func TestC04API(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d,"detail":"no\u001b[31m","request_id":"req_1"}`, status)
	}))
	defer server.Close()
	wire := func(context.Context, OpenOptions) (raw.Client, error) {
		return raw.Client{Base: server.URL, HTTP: server.Client()}, nil
	}
	for status, want := range map[int]int{
		200: exitOK, 202: exitOK, 400: exitUsage, 401: exitDenied, 403: exitDenied, 404: exitNotFound, 405: exitUsage, 408: exitUnreachable, 409: exitConflict, 410: exitNotFound,
		412: exitConflict, 413: exitUsage, 415: exitUsage, 422: exitUsage, 428: exitConflict, 429: exitConflict, 500: exitError, 501: exitError, 502: exitUnreachable,
		503: exitUnreachable, 504: exitUnreachable, 507: exitStorage,
	} {
		if got := codeOf(status); got != want && want != exitOK {
			t.Errorf("%d: exit code %d, want %d", status, got, want)
		}
		if !slices.Contains([]int{200, 401, 409, 507}, status) { // a few statuses use a real connection
			continue
		}
		code, out, talk := command{args: fmt.Sprintf("api POST /%d -d {}", status), wire: wire}.run(t.Context())
		if code != want || !strings.Contains(out, `"request_id":"req_1"`) || code != exitOK && !strings.Contains(talk, "request req_1") {
			t.Errorf("%d: exit code %d, want %d, %q, %q", status, code, want, out, talk)
		}
		if strings.Contains(talk, "\x1b") {
			t.Errorf("%d drives the terminal: %q", status, talk)
		}
	}
}

// TestC14API checks that wrong input is reported before anything is sent, and that a missing server
// is reported with a hint.
func TestC14API(t *testing.T) {
	t.Parallel()
	sent := func(context.Context, OpenOptions) (raw.Client, error) {
		t.Error("the server was asked for")
		return raw.Client{}, perdure.NotFound
	}
	for args, says := range map[string]string{
		"api FETCH /v1/tools":                         "is not a method",
		"api GET http://other/v1/tools":               "must not contain a host",
		"api POST /v1/tools --paginate":               "--paginate works only with GET",
		"api GET /v1/tools -q limit":                  "is not name=value",
		"api GET /v1/tools -H nothing":                "is not a header",
		"api GET /v1/tools -H authorization:Bearer_x": "PERDURE_TOKEN",
		"api GET /v1/tools --jq .[":                   "--jq: unexpected",
		"api GET":                                     "<path>",
	} {
		code, out, talk := command{args: args, wire: sent}.run(t.Context())
		if code != exitUsage || out != "" || !strings.Contains(talk, says) {
			t.Errorf("%s: exit code %d, %q, %q", args, code, out, talk)
		}
		wantAdvice(t, talk)
	}
	nobody := func(context.Context, OpenOptions) (raw.Client, error) { return raw.Client{}, perdure.NotFound }
	if code, _, talk := (command{args: "api GET /v1/tools", wire: nobody}).run(t.Context()); code != exitUnreachable || !strings.Contains(talk, "perdure serve") {
		t.Errorf("exit code %d, %q", code, talk)
	}
}
