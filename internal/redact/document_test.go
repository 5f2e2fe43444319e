package redact_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/perdure/perdure/internal/redact"
)

// TestRedactNested: the value of a secret name is hidden in objects, lists, JSON in strings,
// headers, queries and forms, at any depth (RD1, RD2).
func TestRedactNested(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"objects", `{"a": {"Password": "x", "b": [1.0, {"api-keys": ["x", "y"]}]}, "n": null}`,
			`{"a":{"Password":"<redacted>","b":[1.0,{"api-keys":"<redacted>"}]},"n":null}`},
		{"any value under the name", `{"token":null,"auth":true,"secret":5,"cookie":{"a":"x"},"signature":["x"]}`,
			`{"token":"<redacted>","auth":"<redacted>","secret":"<redacted>","cookie":"<redacted>","signature":"<redacted>"}`},
		{"JSON in text", `{"body":"{\"password\":\"x\",\"c\":\"[{\\\"access_token\\\":\\\"x\\\"}]\"}"}`,
			`{"body":"{\"password\":\"<redacted>\",\"c\":\"[{\\\"access_token\\\":\\\"<redacted>\\\"}]\"}"}`},
		{"a text in JSON in text", `["\"Authorization: Bearer x\""]`, `["\"Authorization: <redacted>\""]`},
		{"headers as an object", `{"headers":{"Authorization":["Bearer x"],"X-Api-Key":"x","Accept":"*/*"}}`,
			`{"headers":{"Authorization":"<redacted>","X-Api-Key":"<redacted>","Accept":"*/*"}}`},
		{"headers as pairs", `[["Cookie","x"],{"value":"x","name":"Set-Cookie"},{"name":"a","value":"b"}]`,
			`[["Cookie","<redacted>"],{"value":"<redacted>","name":"Set-Cookie"},{"name":"a","value":"b"}]`},
		{"headers as texts", `["Authorization: Bearer x","Accept: */*","Bearer abcdefghij"]`,
			`["Authorization: <redacted>","Accept: */*","Bearer <redacted>"]`},
		{"a key twice", `{"token":"x","token":"y"}`, `{"token":"<redacted>","token":"<redacted>"}`},
		{"escapes", `["\ud83d\udd11\u00e4 token=\ud83d\udd11","\ud83d\u0041\/\b"]`, `["🔑ä token=<redacted>","�A/\b"]`},
		{"an escaped key", `{"\u0070assword":"x","pass\u0077ord":"y"}`,
			`{"password":"<redacted>","password":"<redacted>"}`},
		{"a secret in a key", `{"https://h/?access_token=x":1}`, `{"https://h/?access_token=<redacted>":1}`},
		{"a request", "GET / HTTP/1.1\r\nAuthorization: Digest a=\"x\", response=\"y\"\r\nCookie: a=x; b=y\r\nHost: " +
			"h\r\n\r\n",
			"GET / HTTP/1.1\r\nAuthorization: <redacted>\r\nCookie: <redacted>\r\nHost: h\r\n\r\n"},
		{"a query", "https://u:x@h/p?a=1&access_token=x%20y&b=2#c",
			"https://u:<redacted>@h/p?a=1&access_token=<redacted>&b=2#c"},
		{"a query in a query", "u=https%3A%2F%2Fh%3Faccess_token%3Dx%26b%3D2&a=1",
			"u=https%3A%2F%2Fh%3Faccess_token%3D<redacted>%26b%3D2&a=1"},
		{"a form", "user[password]=x&user%5Btoken%5D=y&grant=z",
			"user[password]=<redacted>&user%5Btoken%5D=<redacted>&grant=z"},
		{"a command", `curl -H "Authorization: Bearer x" -H 'X-Key: y' --token z --password=w -v`,
			`curl -H "Authorization: <redacted>" -H 'X-Key: <redacted>' --token <redacted> --password=<redacted> -v`},
		{"arguments of a command", `["run","--token","x","--key","-v","--verbose","y"]`,
			`["run","--token","<redacted>","--key","<redacted>","--verbose","y"]`},
		{"JSON that was cut", `{"a":1,"password":"x\"y, {\"b\`, `{"a":1,"password":"<redacted>`},
		{"an object that was cut", `{"token":{"a":"}","b":[1]},"c":"d`, `{"token":<redacted>,"c":"d`},
		{"no JSON at all", `{'password': 'x', "n": 1, token: "y"}`,
			`{'password': '<redacted>', "n": 1, token: "<redacted>"}`},
		{"what is hidden already", `{"a":"https://h?key=<redacted>","b":"c`, `{"a":"https://h?key=<redacted>","b":"c`},
		{"settings", "password: |\n  x\n  y\n", "password: <redacted>"},
		{"kept", `{"idempotency_key":"a","Public-Key":"b","max_tokens":5,"Input-Tokens":-1.5e3,"tokenizer":"c","keyboard":"d"}`,
			`{"idempotency_key":"a","Public-Key":"b","max_tokens":5,"Input-Tokens":-1.5e3,"tokenizer":"c","keyboard":"d"}`},
		{"kept in text", "idempotency key: a, max_tokens=5&x=y", "idempotency key: a, max_tokens=5&x=y"},
		{"not kept", `{"my_public_key":"x","max_tokens":"5","token":5,"next_page_token":"x","partition_key":"y"}`,
			`{"my_public_key":"<redacted>","max_tokens":"<redacted>","token":"<redacted>","next_page_token":"<redacted>","partition_key":"<redacted>"}`},
	} {
		if got := redact.Document(c.in); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if got := redact.Document(c.want); got != c.want {
			t.Errorf("%s, again:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// awkward is a value whose methods fail.
type awkward struct{ fault string }

func (a awkward) MarshalJSON() ([]byte, error) {
	if a.fault == "panic" {
		panic("canary")
	}
	return []byte(`{"x":"canary"}`), errors.New("canary")
}

// panicky is an error that cannot be read.
type panicky struct{}

func (panicky) Error() string { panic("canary") }

// TestRedactFailsClosed: what cannot be shown safely is not shown at all (RD4).
func TestRedactFailsClosed(t *testing.T) {
	t.Parallel()
	var absent *time.Time
	for name, v := range map[string]any{
		"a panic":               map[string]any{"canary": awkward{"panic"}},
		"an error":              []any{"canary", awkward{}},
		"an error that panics":  panicky{},
		"one inside":            map[string]any{"canary": panicky{}},
		"a kind without a text": map[string]any{"canary": make(chan int)},
		"a function":            func() string { return "canary" },
		"a key that panics":     map[any]any{panicky{}: "canary"},
	} {
		if got := redact.Document(v); got != redact.Unprintable {
			t.Errorf("%s: got %q, want %q", name, got, redact.Unprintable)
		}
	}
	if got := redact.Document(map[string]any{"at": absent}); got != `{"at":null}` {
		t.Errorf("got %s", got)
	}
	if got := redact.Document(redact.Unprintable); got != redact.Unprintable {
		t.Errorf("got %s", got)
	}
}

type label string

type ring *ring

type limits struct {
	Auth string
	Most int
}

// TestRedactOddKeys: a key that is not a string is converted before it is compared, and odd values
// do not break the output (RD2).
func TestRedactOddKeys(t *testing.T) {
	t.Parallel()
	word := "token"
	loop := map[string]any{"a": 1}
	loop["loop"] = loop
	for _, c := range []struct {
		in   any
		want string
	}{
		{map[any]any{1: "a", 1.5: "b", true: "c", nil: "d"}, `{"1":"a","1.5":"b","<nil>":"d","true":"c"}`},
		{map[any]any{label("My Tokens"): "x", &word: "y", [6]byte([]byte("cookie")): "z"},
			`{"My Tokens":"<redacted>","cookie":"<redacted>","token":"<redacted>"}`},
		{map[struct{ A, B string }]int{{"a", "token"}: 1}, `{"{a token}":1}`},
		{map[time.Duration]string{time.Second: "a"}, `{"1s":"a"}`},
		{map[any]string{time.UTC: "a"}, `{"UTC":"a"}`},
		{map[string]any{"": 1, "-_ s": 2, "KEY": 3, " k e y s ": 4},
			`{"":1," k e y s ":"<redacted>","-_ s":2,"KEY":"<redacted>"}`},
		{http.Header{"Cookie": {"x"}, "Accept": {"a"}}, `{"Accept":["a"],"Cookie":"<redacted>"}`},
		{struct {
			Password string
			Name     string `json:"name,omitempty"`
			APIKey   label  `json:"k"`
			Hidden   string `json:"-"`
			limits
			private string
		}{Password: "x", APIKey: "y", private: "z",
			limits: limits{Auth: "a", Most: 5}}, `{"Password":"<redacted>","k":"y","Auth":"<redacted>","Most":5}`},
		{[]any{math.NaN(), math.Inf(-1), 1e21, complex(1, 2), []byte("token=x"), json.RawMessage(`{"key":1}`),
			json.RawMessage(`{"key":`), json.Number("1.0")},
			`["NaN","-Inf",1e+21,"(1+2i)","token=<redacted>",{"key":"<redacted>"},"{\"key\":","1.0"]`},
		{errors.New("token=x"), "token=<redacted>"},
		{map[string]any{"error": fmt.Errorf("a: %w", errors.New(`{"token": "x"}`))},
			`{"error":"a: {\"token\": \"<redacted>\"}"}`},
		{nil, "null"},
		{json.RawMessage(nil), ""},
	} {
		if diff := cmp.Diff(c.want, redact.Document(c.in)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.in, diff)
		}
	}
	if got, want := redact.Document(loop), strings.Repeat(`{"a":1,"loop":`, 32)+`"<redacted>"`+strings.Repeat("}",
		32); got != want {
		t.Errorf("a map in itself:\n got %s\nwant %s", got, want)
	}
	var self ring
	self = &self
	if got := redact.Document([]any{self}); got != `["<redacted>"]` {
		t.Errorf("a pointer to itself: got %s", got)
	}
}

// TestBounds: strings, documents and depth are limited as configured, at character boundaries (RD1,
// RD3).
func TestBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä🔑", 300)
	deep := func(levels int) string {
		return strings.Repeat("[", levels) + `"x"` + strings.Repeat("]", levels)
	}
	wrapped := `"x"`
	for range 4 {
		text, _ := json.Marshal(wrapped)
		wrapped = string(text)
	}
	small, err := redact.New(redact.Config{MaxString: 5, MaxDocument: 20, MaxDepth: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want string
	}{
		{"a text", redact.Document([]string{long, "b"}), `["` + strings.Repeat("ä🔑", 99) + `ä…","b"]`},
		{"a text that fits", redact.Document([]string{long[:len("ä🔑")*100]}), `["` + strings.Repeat("ä🔑", 100) + `"]`},
		{"a document", redact.Document(long), strings.Repeat("ä🔑", 249) + "ä…"},
		{"a document that fits", redact.Document(long[:len("ä🔑")*250]), strings.Repeat("ä🔑", 250)},
		{"32 levels", redact.Document(deep(32)), deep(32)},
		{"33 levels", redact.Document(deep(33)), strings.Replace(deep(32), "x", redact.Mark, 1)},
		{"small text", small.Document(`["abcdef","abcde"]`), `["abcd…","abcde"]`},
		{"small document", small.Document(`[1000000,1000000,1000000]`), `[1000000,1000000,10…`},
		{"small depth", small.Document(`[[[1]],[2],3]`), `[["<redacted>"],[2],3]`[:19] + "…"},
		{"depth of JSON in text", small.Document(`{"a":"[[1]]"}`), `{"a":"<red…"}`},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, c.got, c.want)
		}
	}
	if got := redact.Document(wrapped); got != wrapped {
		t.Errorf("JSON in JSON: got %s, want %s", got, wrapped)
	}
	for _, cfg := range []redact.Config{{MaxString: -1}, {MaxDocument: -1}, {MaxDepth: -1}} {
		if _, err := redact.New(cfg); err == nil || !strings.Contains(err.Error(), "redact.") {
			t.Errorf("%+v: got %v, want an error that names the setting", cfg, err)
		}
	}
	huge, err := redact.New(redact.Config{MaxString: math.MaxInt, MaxDocument: math.MaxInt, MaxDepth: math.MaxInt})
	if got := huge.Document([]string{long}); err != nil || got != `["`+long+`"]` {
		t.Errorf("huge bounds: got %s, %v", got, err)
	}
}

// TestKnownInDocuments: a known secret is hidden before a text is cut, also in keys, numbers and
// JSON in strings.
func TestKnownInDocuments(t *testing.T) {
	t.Parallel()
	r, err := redact.New(redact.Config{Known: redact.NewSet("canary-0123456789", "1234567890123")})
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Repeat("x", 195)
	in := map[string]any{"canary-0123456789": "a", "b": before + "canary-0123456789", "n": 1234567890123,
		"t": `{"c":"canary\u002d0123456789"}`}
	want := `{"b":"` + before + `<red…","<redacted>":"a","n":"<redacted>","t":"{\"c\":\"<redacted>\"}"}`
	if got := r.Document(in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// tree generates a document with a canary under a name, or in a header, a query or a form, at any
// depth.
func tree(t *rapid.T, depth int) any {
	if depth == 0 {
		return map[string]any{rapid.SampledFrom([]string{"password", "Api-Key", "x_token", "SECRETS"}).Draw(t,
			"key"): "canary-0123456789"}
	}
	inner := tree(t, depth-1)
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		text, _ := json.Marshal(inner)
		return string(text)
	case 1:
		return []any{rapid.String().Draw(t, "other"), inner}
	case 2:
		return map[string]any{"a": rapid.String().Draw(t, "other"), "b": inner}
	case 3:
		return []any{inner, "Authorization: Bearer canary-0123456789"}
	case 4:
		return map[any]any{1: inner, "u": "https://h/?a=b&access_token=canary-0123456789"}
	}
	return map[string]any{"form": "a=b&client_secret=canary-0123456789", "b": inner}
}

// TestPR10Documents: no canary under the name of a secret is shown, and redacting the output again
// changes nothing, whatever the limits.
func TestPR10Documents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, err := redact.New(redact.Config{
			MaxString:   rapid.IntRange(1, 300).Draw(t, "string"),
			MaxDocument: rapid.IntRange(1, 600).Draw(t, "document"),
			MaxDepth:    rapid.IntRange(1, 40).Draw(t, "depth"),
		})
		if err != nil {
			t.Fatal(err)
		}
		in := tree(t, rapid.IntRange(0, 9).Draw(t, "levels"))
		got := r.Document(in)
		if strings.Contains(got, "canary") || got == redact.Unprintable {
			t.Errorf("%v became %s", in, got)
		}
		if again := r.Document(got); again != got {
			t.Errorf("%v became %s, and that %s", in, got, again)
		}
	})
}

func FuzzDocument(f *testing.F) {
	for _, text := range []string{
		`{"a":{"Password":"x"},"b":"{\"token\":\"y\"}"}`, "Authorization: Bearer x\nCookie: y",
		"a=b&access_token=x%26", `{'key': "x`, `--token "x`,
		"u=https%253A%3Fkey%253Dx", "://u:p@h", "secret:\\\"\\\\\"'`|\n", "\xff\xc3key=\xff",
		"\"\\ud83d\\ud83d\\udd11\"", "key:key=--key key:=>",
	} {
		f.Add(text, "name", 30, 60)
	}
	f.Fuzz(func(t *testing.T, text, key string, maxString, maxDocument int) {
		r, err := redact.New(redact.Config{MaxString: 1 + maxString&0xff, MaxDocument: 1 + maxDocument&0x3ff})
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range []any{text, map[string]any{key: text, "password": "canary-0123456789"},
			[]any{map[string]any{text: "x" + key}, "api_key=canary-0123456789"}} {
			got := r.Document(in)
			if again := r.Document(got); again != got {
				t.Errorf("%q became %q, and that %q", in, got, again)
			}
			if got == redact.Unprintable && in != any(got) {
				t.Errorf("%q does not settle", in)
			}
			if utf8.RuneCountInString(got) > 1+maxDocument&0x3ff && got != redact.Unprintable ||
				!utf8.ValidString(got) {
				t.Errorf("%q became %q, which is too long or no text", in, got)
			}
			if strings.Contains(got, "canary-0123456789") && !strings.Contains(text+key, "canary") {
				t.Errorf("%q became %q", in, got)
			}
		}
	})
}
