package payment

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/perdure/perdure/tool"
)

const approverSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestHTTPApprover: only a clear allow lets a payment pass, and the question is signed.
func TestHTTPApprover(t *testing.T) {
	t.Parallel()
	question := Question{ID: "pay_1", Session: "session_1", Call: "call_1", Tool: "buy", Capability: "news", Host: "news.example.com",
		Operation: "buy", Amount: tool.Amount{Micros: 250_000, Currency: "usd"}, Parameters: []byte(`{}`)}
	for name, c := range map[string]struct {
		status int
		answer string
		want   string // in the error; empty: it passes
		denied bool
	}{
		"allow":          {200, `{"decision":"allow"}`, "", false},
		"more fields":    {200, `{"decision":"allow","by":"ann"}`, "", false},
		"deny":           {200, `{"decision":"deny","reason":"too late"}`, "too late", true},
		"nothing":        {200, ``, "cannot be read", false},
		"another word":   {200, `{"decision":"ALLOW"}`, "want allow or deny", false},
		"twice":          {200, `{"decision":"deny","decision":"allow"}`, "cannot be read", false},
		"no decision":    {200, `{}`, "want allow or deny", false},
		"another status": {202, `{"decision":"allow"}`, "202", false},
		"a redirect":     {302, `{"decision":"allow"}`, "302", false},
		"an error":       {500, `{"decision":"allow"}`, "500", false},
		"a long answer":  {200, `{"decision":"allow","x":"` + strings.Repeat("x", maxDecisionBytes) + `"}`, "more than", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fault error
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				verifier, failed := standard.NewWebhook(approverSecret)
				if fault = errors.Join(err, failed); fault == nil {
					fault = verifier.Verify(body, r.Header)
				}
				if !strings.Contains(string(body), `"amount":{"value":"0.25","currency":"usd"}`) {
					fault = errors.Join(fault, errors.New("the question is "+string(body)))
				}
				w.Header().Set("Location", "/")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			h, err := NewHTTPApprover(server.URL, approverSecret)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()

			err = h.Approve(t.Context(), question)

			var denied *Denial
			if fault != nil || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || errors.As(err, &denied) != c.denied {
				t.Errorf("got %v, want %q; the server says %v", err, c.want, fault)
			}
		})
	}
	for name, c := range map[string][2]string{"no URL": {"", approverSecret}, "no secret": {"http://127.0.0.1:1/", ""}, "another secret": {"http://127.0.0.1:1/", "whsec_?"}} {
		if _, err := NewHTTPApprover(c[0], c[1]); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// FuzzDecision: nothing but a clear allow passes, and no answer panics.
func FuzzDecision(f *testing.F) {
	for _, seed := range []string{`{"decision":"allow"}`, `{"decision":"deny","reason":"no"}`, `{"decision":"allow","decision":"deny"}`, `[]`, "", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if readDecision(text) == nil && !strings.Contains(string(text), "allow") && !strings.Contains(string(text), `\u`) {
			t.Errorf("%q allows a payment", text)
		}
	})
}
