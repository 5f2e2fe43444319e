package anthropic_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
)

// saying answers every question with these bytes, which need not be HTTP.
func saying(t *testing.T, answer string) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestS18Canary: wherever a server puts the key into its answer, no error shows it, nor what caused
// the error.
func TestS18Canary(t *testing.T) {
	t.Parallel()
	answerOf := func(status, kind, body string) string {
		return "HTTP/1.1 " + status + "\r\nContent-Type: " + kind + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	const events = "text/event-stream"
	for name, answer := range map[string]string{
		"message":           answerOf("401 Unauthorized", "application/json", envelope("authentication_error", "no such key: "+key)),
		"kind of error":     answerOf("500 Oops", "application/json", envelope(key, "")),
		"plain text":        answerOf("403 Forbidden", "text/plain", "who is "+key+"?"),
		"kind":              answerOf("200 OK", "application/"+key, "x"),
		"location":          "HTTP/1.1 302 Found\r\nLocation: https://example.com/?key=" + key + "\r\nContent-Length: 0\r\n\r\n",
		"status line":       key + " 200 OK\r\n\r\n",
		"header":            "HTTP/1.1 200 OK\r\n" + key + "\r\n\r\n",
		"length of a chunk": "HTTP/1.1 200 OK\r\nContent-Type: " + events + "\r\nTransfer-Encoding: chunked\r\n\r\n" + key + "\r\n",
		"error in a stream": answerOf("200 OK", events, "event: error\ndata: "+envelope("api_error", key)+"\n\n"),
		"no error at all":   answerOf("200 OK", events, "event: error\ndata: "+key+"\n\n"),
		"half of an event":  answerOf("200 OK", events, "event: message_start\ndata: {\""+key+"\n\n"),
		"value of an event": answerOf("200 OK", events, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":\""+key+"\"}\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reported *model.Error
			if h := listen(t, ask(t, saying(t, answer)), hello); !errors.As(h.err, &reported) {
				t.Fatalf("got %v", h.err)
			}
			if text := fmt.Sprintf("%v %s %v", reported, reported.Text, reported.Err); strings.Contains(text, key) {
				t.Errorf("the error shows the key: %s", text)
			}
		})
	}
}

// TestS18OtherForms: nor does it show the key in another form.
func TestS18OtherForms(t *testing.T) {
	t.Parallel()
	const key = "local-canary+of/this=test&co"
	for said, want := range map[string]string{
		"a " + url.QueryEscape(key) + " b":                              "a <redacted> b",
		"a " + url.PathEscape(key) + " b":                               "a <redacted> b",
		"a " + strings.ToLower(url.QueryEscape(key)) + " b":             "a <redacted> b",
		`a local-canary\u002bof\/this\u003Dtest\u0026co b`:              "a <redacted> b",
		"a local-canary&#43;of/this&#x3d;test&amp;co b":                 "a <redacted> b",
		"a " + strings.ToUpper(hex.EncodeToString([]byte(key))) + " b":  "a <redacted> b",
		"a " + base64.StdEncoding.EncodeToString([]byte(key)) + " b":    "a <redacted>w== b",
		"a " + base64.RawURLEncoding.EncodeToString([]byte(key)) + " b": "a <redacted>w b",
	} {
		if got := errorText(t, key, said); got != want {
			t.Errorf("%s: got %q, want %q", said, got, want)
		}
	}
	if got, want := errorText(t, "on", "no model monk for key on: on, upon"), "no model monk for key <redacted>: <redacted>, upon"; got != want {
		t.Errorf("a key that is a word: got %q, want %q", got, want)
	}
}

// errorText returns the text of the error for a server's message to a client with this key.
func errorText(t *testing.T, key, said string) string {
	t.Helper()
	refuses := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, envelope("invalid_request_error", said))
	})
	m := adapter(t, anthropic.Config{Name: "m", Key: key, BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: inProcess{refuses}}})
	var failure *model.Error
	if h := listen(t, m, hello); !errors.As(h.err, &failure) {
		t.Fatalf("got %v", h.err)
	}
	return failure.Text
}
