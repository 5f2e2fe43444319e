package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
)

// inProcess is a way out that ends in a handler of this process.
type inProcess struct{ h http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return res, nil
}

func codeOf(err error) model.Code {
	var failure *model.Error
	if !errors.As(err, &failure) {
		return model.Code(fmt.Sprintf("no *model.Error: %v", err))
	}
	return failure.Code
}

func envelope(kind, text string) string {
	body, err := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": text}, "request_id": "req_1"})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// TestErrors: what the provider answers, and the code that it becomes (4.6).
func TestErrors(t *testing.T) {
	t.Parallel()
	const bad = "invalid_request_error"
	tests := []struct {
		status     int
		kind, text string
		want       model.Code
	}{
		{429, "rate_limit_error", "This request would exceed your organization's rate limit of 40,000 input tokens per minute. For billing, see the console.", model.RateLimited},
		{429, "rate_limit_error", "Usage limit reached.", model.UsageLimit},
		{400, bad, "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.", model.UsageLimit},
		{400, bad, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.", model.QuotaExhausted},
		{402, "billing_error", "Payment is due.", model.QuotaExhausted},
		{402, "", "", model.QuotaExhausted},
		{500, "api_error", "Internal server error", model.Unavailable},
		{502, "", "<html>usage limit</html>", model.Unavailable},
		{504, "timeout_error", "Request timed out", model.Unavailable},
		{529, "overloaded_error", "Overloaded", model.Unavailable},
		{408, "", "", model.Unavailable},
		{413, "request_too_large", "Request exceeds the maximum size", model.TooLarge},
		{400, bad, "prompt is too long: 205351 tokens > 200000 maximum", model.TooLarge},
		{400, bad, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", model.TooLarge},
		{400, bad, "tools.3.custom.input_schema: JSON schema is invalid", model.InvalidToolSchema},
		{400, bad, "tools.3.custom.name: String should match pattern", model.Misconfigured},
		{400, bad, "max_tokens: 99999 > 8192", model.Misconfigured},
		{401, "authentication_error", "invalid x-api-key", model.Misconfigured},
		{403, "permission_error", "Your API key does not have permission to use the specified resource.", model.Misconfigured},
		{404, "not_found_error", "model: claude-none", model.ModelUnavailable},
		{409, "conflict_error", "There is a conflict.", model.Processing},
		{418, "", "", model.Processing},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%d %s", test.status, test.text), func(t *testing.T) {
			t.Parallel()
			status := listen(t, fails(t, test.status, envelope(test.kind, test.text), nil), hello)
			if got := codeOf(status.err); got != test.want {
				t.Errorf("got %q, want %q: %v", got, test.want, status.err)
			}
			if test.kind == "" {
				return
			}
			// The same in the middle of a stream.
			stream := fmt.Sprintf("event: error\ndata: %s\n\n", envelope(test.kind, test.text))
			if got := codeOf(hear(t, replay{bytes: []byte(stream)}).err); got != test.want {
				t.Errorf("got %q for the event, want %q", got, test.want)
			}
		})
	}
}

// fails is the adapter in front of a server that refuses everything.
func fails(t *testing.T, status int, body string, header http.Header) *anthropic.Model {
	t.Helper()
	return adapter(t, anthropic.Config{Name: "m", Key: key, BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: inProcess{http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			for name, values := range header {
				w.Header()[name] = values
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})}}})
}

// TestRetryAfter: seconds and dates are both understood, nonsense is no wait.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	tests := map[string][2]time.Duration{ // at least, at most
		"7": {7 * time.Second, 7 * time.Second}, "1.5": {1500 * time.Millisecond, 1500 * time.Millisecond}, "0": {}, "-3": {}, "NaN": {}, "soon": {}, "": {},
		"1e300": {24 * time.Hour, 24 * time.Hour},
		time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat): {30 * time.Second, 90 * time.Second},
		time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat):     {},
	}
	for value, want := range tests {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			h := listen(t, fails(t, 429, envelope("rate_limit_error", "slow down"), http.Header{"Retry-After": {value}}), hello)

			var failure *model.Error
			if !errors.As(h.err, &failure) || failure.RetryAfter < want[0] || failure.RetryAfter > want[1] {
				t.Errorf("got %v, %+v; want between %s and %s", h.err, failure, want[0], want[1])
			}
		})
	}
}

// TestWords: the provider's words come cut at a character and without a key, also where the cut
// would go through it.
func TestWords(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"the key":             envelope("authentication_error", "the key "+key+" is wrong"),
		"a key of others":     envelope("authentication_error", "not sk-ant-api03-abc_DEF, is it"),
		"a key at the cut":    envelope("api_error", strings.Repeat("x", 490)+" "+key),
		"a long text":         envelope("api_error", strings.Repeat("ö🙂", 400)),
		"a page":              "<html>\n\n  <b>" + key + "</b>\n" + strings.Repeat("z", 1<<20),
		"no text":             "",
		"half a JSON":         `{"error":{"message":"` + key,
		"bytes that are none": "\xff\xfe",
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failure *model.Error
			if h := listen(t, fails(t, 500, body, nil), hello); !errors.As(h.err, &failure) {
				t.Fatalf("got %v", h.err)
			}
			text := failure.Error()
			for _, secret := range []string{key, "sk-ant", key[len(key)-8:]} {
				if strings.Contains(text, secret) {
					t.Errorf("%q holds %q", text, secret)
				}
			}
			if failure.Text == "" || len(text) > 600 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r") {
				t.Errorf("got %d bytes: %q", len(text), text)
			}
			if dump := fmt.Sprintf("%+v %#v", failure, failure.Err); strings.Contains(dump, key) {
				t.Errorf("the error's own fields hold the key: %s", dump)
			}
		})
	}
}

// wayOut is a transport that fails.
type wayOut struct{ err error }

func (w wayOut) RoundTrip(*http.Request) (*http.Response, error) { return nil, w.err }

// TestTransport: errors of the transport. A refusal by the guard is distinguished from a failed
// connection.
func TestTransport(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	tests := map[string]struct {
		out  http.RoundTripper
		want model.Code
	}{
		"nobody listens": {http.DefaultTransport, model.Unavailable},
		"denied":         {wayOut{&perdure.EgressError{Code: perdure.EgressDenied, Text: "127.0.0.1 is private"}}, model.Misconfigured},
		"invalid":        {wayOut{&perdure.EgressError{Code: perdure.EgressInvalid, Text: "no such scheme"}}, model.Misconfigured},
		"no connection":  {wayOut{&perdure.EgressError{Code: perdure.EgressTransport, Text: "refused"}}, model.Unavailable},
		"a page":         {inProcess{typed("text/html", 200, "")}, model.Misconfigured},
		"another API":    {inProcess{typed("application/json", 200, "")}, model.Misconfigured},
		"a redirect":     {inProcess{typed("", 307, "https://elsewhere.example")}, model.Misconfigured},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := adapter(t, anthropic.Config{Name: "m", Key: key, BaseURL: closed.URL, HTTP: &http.Client{Transport: test.out}})
			h := listen(t, m, hello)
			if got := codeOf(h.err); got != test.want {
				t.Errorf("got %q, want %q: %v", got, test.want, h.err)
			}
			var denied *perdure.EgressError
			if w, ok := test.out.(wayOut); ok && (!errors.As(h.err, &denied) || denied != w.err) {
				t.Errorf("got %v, which does not lead to the guard's word", h.err)
			}
		})
	}
}

func typed(kind string, status int, location string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, map[string]string{"text/html": "<html>", "application/json": "{}"}[kind])
	}
}

// TestRedirect: a redirect is not followed, so the key reaches no other host.
func TestRedirect(t *testing.T) {
	t.Parallel()
	reached := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached <- r.Header.Get("X-Api-Key") }))
	defer elsewhere.Close()

	h := listen(t, ask(t, http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect)), hello)

	if codeOf(h.err) != model.Misconfigured || !strings.Contains(h.err.Error(), elsewhere.URL) {
		t.Errorf("got %v, want an error that names %s", h.err, elsewhere.URL)
	}
	select {
	case got := <-reached:
		t.Errorf("the other host was asked, with key %q", got)
	default:
	}
}

// TestCause: a context that ends wins over what the connection says of it, also in the middle of a
// call.
func TestCause(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	m := ask(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, sse(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"pay","input":{}}}`))
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		cancel(perdure.CauseShutdown)
		<-r.Context().Done()
	}))

	a, err := model.Collect(m.Stream(ctx, hello), nil)

	if !errors.Is(err, perdure.CauseShutdown) || len(a.Message.Calls()) != 0 {
		t.Errorf("got %v and calls %v, want %v and none", err, a.Message.Calls(), perdure.CauseShutdown)
	}
}
