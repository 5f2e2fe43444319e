package redact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/perdure/perdure/internal/redact"
)

// TestLogs: a redacting handler keeps all the rules of a slog handler.
func TestLogs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return redact.Logs(slog.NewJSONHandler(&out, nil), nil)
	}, func(t *testing.T) map[string]any {
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		return line
	})
}

// secretive returns its text only from a method.
type secretive struct{ v any }

func (s secretive) LogValue() slog.Value {
	if s.v == nil {
		panic("canary")
	}
	return slog.AnyValue(s.v)
}

type point struct{ X, Y int }

func (p point) String() string { return "at a point" }

// TestLogsRedact: no attribute and no message shows a secret, by name or by value, and everything
// else stays as it is.
func TestLogsRedact(t *testing.T) {
	t.Parallel()
	r, err := redact.New(redact.Config{Known: redact.NewSet("canary-0123456789")})
	if err != nil {
		t.Fatal(err)
	}
	stack := strings.Repeat("goroutine 1 [running]:\n\tmain.go:1 +0x1\n", 100)
	for _, c := range []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"a name", func(l *slog.Logger) { l.Info("m", "api_key", "x", "password", 5, "input_tokens", 5, "n", 1) },
			`{"msg":"m","api_key":"<redacted>","password":"<redacted>","input_tokens":5,"n":1}`},
		{"a message", func(l *slog.Logger) {
			l.Info("got canary-0123456789 and token=x")
		}, `{"msg":"got <redacted> and token=<redacted>"}`},
		{"texts", func(l *slog.Logger) {
			l.Info("m", "a", "Authorization: Bearer x", "b", "Y2FuYXJ5LTAxMjM0NTY3ODk=", "c", "fine")
		},
			`{"msg":"m","a":"Authorization: <redacted>","b":"<redacted>k=","c":"fine"}`},
		{"arguments", func(l *slog.Logger) {
			l.Info("m", "args", json.RawMessage(`{"a":1,"token":"x"}`), "b", []byte("key=x"))
		},
			`{"msg":"m","args":{"a":1,"token":"<redacted>"},"b":"key=<redacted>"}`},
		{"values", func(l *slog.Logger) {
			l.Info("m", "a", map[string]any{"Token": "x", "n": 1}, "b", []string{"a", "canary-0123456789"}, "c",
				point{1, 2}, "d", struct{ Auth string }{"x"})
		}, `{"msg":"m","a":{"Token":"<redacted>","n":1},"b":["a","<redacted>"],"c":{"X":1,"Y":2},"d":{"Auth":"<redacted>"}}`},
		{"errors", func(l *slog.Logger) {
			l.Info("m", "error", errors.New("canary-0123456789"), "b", errors.New("fine"), "c", json.Number("5"))
		}, `{"msg":"m","error":"<redacted>","b":"fine","c":5}`},
		{"groups", func(l *slog.Logger) {
			l.With("token", "x", "a", 1).WithGroup("g").Info("m", slog.Group("h", "key", "x",
				"b", 1), slog.Group("auth", "c", 1), slog.Group("", "secret", "x"))
		}, `{"msg":"m","token":"<redacted>","a":1,"g":{"h":{"key":"<redacted>","b":1},"auth":"<redacted>","secret":"<redacted>"}}`},
		{"a group of secrets", func(l *slog.Logger) {
			l.WithGroup("credentials").With("a", "x").WithGroup("b").Info("m", "c", 1)
		},
			`{"msg":"m","credentials":{"a":"<redacted>","b":{"c":"<redacted>"}}}`},
		{"values that are asked", func(l *slog.Logger) {
			l.Info("m", "a", secretive{"token=x"}, "b", secretive{slog.GroupValue(slog.String("key", "x"))})
		}, `{"msg":"m","a":"token=<redacted>","b":{"key":"<redacted>"}}`},
		{"what goes wrong", func(l *slog.Logger) {
			l.Info("m", "b", panicky{}, "c", awkward{})
		}, `{"msg":"m","b":"<unprintable>","c":"<unprintable>"}`},
		{"a stack is whole", func(l *slog.Logger) {
			l.Info("m", "stack", stack, "took", time.Second)
		}, `{"msg":"m","stack":` + quoted(stack) + `,"took":1000000000}`},
	} {
		var out bytes.Buffer
		c.log(slog.New(redact.Logs(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: plainly}), r)))
		if got := strings.TrimSpace(out.String()); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}

	var out bytes.Buffer
	slog.New(redact.Logs(slog.NewJSONHandler(&out, nil), r)).Info("m", "a", secretive{})
	if !strings.Contains(out.String(), "panicked") || strings.Contains(out.String(), "canary") {
		t.Errorf("got %s", out.String())
	}
}

// plainly removes what is not under test.
func plainly(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}
