package openai_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/model/openai"
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

// answerOf writes an answer of HTTP.
func answerOf(status, kind, more, body string) string {
	return "HTTP/1.1 " + status + "\r\nContent-Type: " + kind + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + more + "\r\n" + body
}

// TestS18Canary: wherever a server puts the key into its answer, no error shows it, nor what
// caused the error.
func TestS18Canary(t *testing.T) {
	t.Parallel()
	const key = "sk-canary+of/this=test"
	const events = "text/event-stream"
	places := map[string]string{
		"message":            answerOf("401 Unauthorized", "application/json", "", `{"error":{"message":"no such key: `+key+`"}}`),
		"code":               answerOf("500 Oops", "application/json", "", `{"error":{"code":"`+key+`","type":"`+key+`"}}`),
		"plain text":         answerOf("403 Forbidden", "text/plain", "", "who is "+key+"?"),
		"kind":               answerOf("200 OK", "application/"+key, "", "x"),
		"location":           answerOf("302 Found", "text/html", "Location: https://example.com/?key="+key+"\r\n", ""),
		"status line":        key + " 200 OK\r\n\r\n",
		"header":             "HTTP/1.1 200 OK\r\n" + key + "\r\n\r\n",
		"length of a chunk":  "HTTP/1.1 200 OK\r\nContent-Type: " + events + "\r\nTransfer-Encoding: chunked\r\n\r\n" + key + "\r\n",
		"finish":             answerOf("200 OK", events, "", "data: "+`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"malformed `+key+`"}]}`+"\n\n"),
		"error in a stream":  answerOf("200 OK", events, "", "data: "+`{"error":{"message":"`+key+`","code":"`+key+`"}}`+"\n\n"),
		"value of a chunk":   answerOf("200 OK", events, "", "data: "+`{"choices":"`+key+`"}`+"\n\n"),
		"key of a chunk":     answerOf("200 OK", events, "", "data: "+`{"choices":[{"`+key+`":1,"index":"`+key+`"}]}`+"\n\n"),
		"half of a chunk":    answerOf("200 OK", events, "", "data: "+`{"choices":["`+key+"\n\n"),
		"answer of one sort": answerOf("200 OK", "application/json", "", `{"message":"`+key+`"}`),
	}
	for name, answer := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported := ask(t, serve(t, saying(t, answer), openai.Config{Name: "m", Key: key}))

			if text := fmt.Sprintf("%v %s %v", reported, reported.Text, reported.Err); strings.Contains(text, key) {
				t.Errorf("the error shows the key: %s", text)
			}
		})
	}
}

// TestS18OtherForms: nor does it show the key in another form, or words around it in a bad one.
func TestS18OtherForms(t *testing.T) {
	t.Parallel()
	const key = "sk-canary+of/this=test&co"
	for said, want := range map[string]string{
		"a " + url.QueryEscape(key) + " b":                                             "a <redacted> b",
		"a " + url.PathEscape(key) + " b":                                              "a <redacted> b",
		"a " + strings.ToLower(url.QueryEscape(key)) + " b":                            "a <redacted> b",
		"a sk-canary%2Bof/this%3Dtest%26co b":                                          "a <redacted> b", // only some of it is escaped
		`a sk-canary\u002bof\/this\u003Dtest\u0026co b`:                                "a <redacted> b",
		"a sk-canary&#43;of/this&#x3d;test&amp;co b":                                   "a <redacted> b",
		"a " + hex.EncodeToString([]byte(key)) + " b":                                  "a <redacted> b",
		"a " + strings.ToUpper(hex.EncodeToString([]byte(key))) + " b":                 "a <redacted> b",
		"a " + base64.StdEncoding.EncodeToString([]byte(key)) + " b":                   "a <redacted>w== b",
		"a " + base64.RawURLEncoding.EncodeToString([]byte(key)) + " b":                "a <redacted>w b",
		"a " + base64.StdEncoding.EncodeToString([]byte("Bearer "+key+" once")) + " b": "a QmVhcmVyIH<redacted>8gb25jZQ== b",
		"a " + base64.URLEncoding.EncodeToString([]byte("me:"+key)) + " b":             "a bWU6<redacted>w== b",
		"a " + base64.URLEncoding.EncodeToString([]byte("me: "+key)) + " b":            "a bWU6IH<redacted>8= b",
	} {
		text, err := json.Marshal(said)
		if err != nil {
			t.Fatal(err)
		}
		reported := ask(t, serve(t, answering(400, nil, `{"error":{"message":`+string(text)+`}}`), openai.Config{Name: "m", Key: key}))
		if reported.Text != want {
			t.Errorf("%s: got %q, want %q", said, reported.Text, want)
		}
	}
}

// TestShortKey: what is hardly a secret is taken out as a word of its own, and never out of other
// words.
func TestShortKey(t *testing.T) {
	t.Parallel()
	reported := ask(t, serve(t, answering(400, nil, `{"error":{"message":"no model monk for key on: on, upon, con"}}`), openai.Config{Name: "m", Key: "on"}))

	if want := "no model monk for key <redacted>: <redacted>, upon, con"; reported.Text != want {
		t.Errorf("got %q, want %q", reported.Text, want)
	}
}
