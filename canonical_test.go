package perdure_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// TestFingerprint has LG13: what does not change the fingerprint, what does, and what has none.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 400) + "7"
	for _, same := range [][]string{
		{`1`, `1.0`, `1e0`, `10e-1`, `0.1e1`, `1.000`, `1E+0`, `100e-2`},
		{`0`, `-0`, `0.0`, `-0.0`, `0e9`, `-0e-99`, `0E+400`},
		{`-1.5`, `-15e-1`, `-0.15e1`, `-1.50`},
		{`9007199254740993`, `9007199254740993.0`, `9.007199254740993e15`},
		{long, long + `.000`, long + `0e-1`},
		{`1e400`, `1` + strings.Repeat("0", 400), `10e399`},
		{`1e401`, `1` + strings.Repeat("0", 401), `0.1e402`},
		{`1e99999999999999999999`, `10e99999999999999999998`},
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true , null ] , "a" : 1.0 } `, "{\n\t\"a\": 1e0,\r\n\t\"b\": [true, null]\n}"},
		{`{"é":"ü"}`, `{"\u00e9":"\u00fc"}`, `{"\u00E9":"\u00FC"}`},
		{`"<&>"`, `"\u003c\u0026\u003e"`},
		{`"\/"`, `"/"`},
		{``, `{}`, " \n", `{ }`},
	} {
		for _, args := range same[1:] {
			if got, want := fingerprint(t, args), fingerprint(t, same[0]); got != want {
				t.Errorf("%.60s and %.60s differ:\n got %s\nwant %s", args, same[0], got, want)
			}
		}
	}
	seen := map[string]string{}
	for _, args := range []string{
		`1`, `-1`, `10`, `1.1`, `"1"`, `[1]`, `{"1":1}`, `9007199254740992`, `9007199254740993`, long, long + `0`, `1e401`, `1e402`, `0.5`, `5`,
		`true`, `"true"`, `null`, `"null"`, `""`, `" "`, `[]`, `{}`, `[[]]`, `[{}]`, `{"a":null}`, `{"a":1}`, `{"A":1}`, `{"a":{"b":1}}`,
		`{"a":[1,2]}`, `{"a":[2,1]}`, `"é"`, `"e\u0301"`, `"\u2028"`, `"\\u2028"`,
	} {
		got := fingerprint(t, args)
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s have the same fingerprint", args, other)
		}
		seen[got] = args
	}
}

func fingerprint(t *testing.T, args string) string {
	t.Helper()
	got, err := perdure.Fingerprint("work", json.RawMessage(args))
	if err != nil {
		t.Fatalf("%.60s: %v", args, err)
	}
	return got
}

func TestFingerprintForm(t *testing.T) {
	t.Parallel()
	got := fingerprint(t, `{"b":2,"a":1}`)
	// sha256sum of ["work",{"a":1,"b":2}]
	if want := "sha256:b2e93115a9d06841a4d63a8d36b2b157e30c46d966352d8a04a5cf571948be2c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	other, err := perdure.Fingerprint("play", json.RawMessage(`{"b":2,"a":1}`))
	if err != nil || other == got {
		t.Errorf("another tool: got %s, %v; want another fingerprint", other, err)
	}
}

func TestFingerprintRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"b":{"a":1,"a":2}}]`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[1 2]`, `[1}`, `{"a":1]`,
		`{} {}`, `1 2`, `{}x`, `01`, `1.`, `.5`, `+1`, `--1`, `1e`, `NaN`, `'a'`, `"a`, "\"\n\"", `tru`, `nulll`, `]`, `,`,
		strings.Repeat("[", 1002) + strings.Repeat("]", 1002),
		`"\ud800"`, `{"\udc00":1}`, `["\ud83d\ud83d"]`, "\"\xff\"", "\"\xed\xa0\x80\"", "\ufeff{}", "\u00a0", `1e` + strings.Repeat("9", 101),
		`[` + strings.Repeat("1e400,", 10_000) + `1]`,
	} {
		if got, err := perdure.Fingerprint("work", json.RawMessage(args)); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%.60s: got %s, %v; want Invalid", args, got, err)
		}
	}
}

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{"b":1,"a":{"d":[],"c":"<>&"},"B":1,"":0,"é":2,"z":3}`, `{"":0,"B":1,"a":{"c":"<>&","d":[]},"b":1,"z":3,"é":2}`},
		{`[1.0,1e2,12345678901234567890123456789,-0,true,false,null]`, `[1,100,12345678901234567890123456789,0,true,false,null]`},
		{`"a\tb"`, `"a\tb"`},
		{`-12e399`, `-12` + strings.Repeat("0", 399)},
		{`1e400`, `1` + strings.Repeat("0", 400)},
		{`1e401`, `1e401`}, // a number is not unfolded further: the arguments of a call stay small
		{`0.05`, `5e-2`},
		{strings.Repeat("[", 1001) + strings.Repeat("]", 1001), strings.Repeat("[", 1001) + strings.Repeat("]", 1001)},
	} {
		got, err := perdure.CanonicalJSON(json.RawMessage(c.text))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.text, got, err, c.want)
		}
	}
}

// TestCanonicalNumber compares the written number with the exact value of the one that was read.
func TestCanonicalNumber(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")

		wrote, err := perdure.CanonicalJSON(json.RawMessage(a))
		if err != nil {
			t.Fatal(err)
		}
		other, err := perdure.CanonicalJSON(json.RawMessage(b))
		if err != nil {
			t.Fatal(err)
		}

		if rational(t, string(wrote)).Cmp(rational(t, a)) != 0 {
			t.Errorf("%s was written as %s", a, wrote)
		}
		if got, want := bytes.Equal(wrote, other), rational(t, a).Cmp(rational(t, b)) == 0; got != want {
			t.Errorf("%s and %s have equal bytes: got %t, want %t", a, b, got, want)
		}
	})
}

func rational(t rapid.TB, s string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number", s)
	}
	return r
}

// TestCanonicalCost: memory grows with the text; nested buffers would copy the long string 900
// times. It runs alone, since it counts what is allocated.
func TestCanonicalCost(t *testing.T) {
	long := strings.Repeat("x", 4<<20)
	text := strings.Repeat(`{"b":`, 900) + `"` + long + `"` + strings.Repeat(`,"a":1}`, 900)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	got, err := perdure.CanonicalJSON(json.RawMessage(text))

	runtime.ReadMemStats(&after)
	want := strings.Repeat(`{"a":1,"b":`, 900) + `"` + long + `"` + strings.Repeat(`}`, 900)
	if err != nil || string(got) != want {
		t.Errorf("got %.100s, %v", got, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
		t.Errorf("%d bytes allocated for a text of %d", used, len(text))
	}
}

// TestStoredSurrogates: a call that an older version journalled is read and applied, although a new
// one with such arguments is refused.
func TestStoredSurrogates(t *testing.T) {
	t.Parallel()
	line := `{"v":1,"id":"e1","seq":1,"type":"message.received","at":"2026-11-21T03:00:00Z","session_id":"s","data":{"message":{"role":"user","parts":[{"type":"text","text":"\ud800"}]}}}`

	e, err := perdure.DecodeEvent([]byte(line))

	if err != nil {
		t.Fatal(err)
	}
	if err := perdure.NewSession(e.Session).Apply(e); errors.Is(err, perdure.Invalid) && strings.Contains(err.Error(), "JSON") {
		t.Errorf("got %v", err)
	}
	if _, err := perdure.EncodeEvent(e); err != nil {
		t.Errorf("it cannot be written again: %v", err)
	}
}

// FuzzCanonicalJSON is PR6: spacing and key order do not change the canonical form, and a changed
// value does.
func FuzzCanonicalJSON(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":[1.0,"x"]}`, `{"b":[1,"x"],"a":1e0}`}, {`1`, `1.0`}, {`-0`, `0`}, {`[]`, `{}`}, {`"a"`, `"\u0061"`}, {`{"a":1,"a":2}`, `{}`},
		{`12345678901234567890`, `12345678901234567891`}, {`{"":null}`, `{"":false}`}, {`[[1],[2]]`, `[[1,[2]]]`}, {`"\u2028"`, `" "`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	hugeExponent := regexp.MustCompile(`[eE][+-]?[0-9]{4}`)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		first, err := perdure.CanonicalJSON(a)
		if err != nil {
			return
		}
		again, err := perdure.CanonicalJSON(first)
		if err != nil || !bytes.Equal(again, first) {
			t.Errorf("the canonical form of %q changes: got %q, %v", first, again, err)
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, first, " ", "\t"); err != nil {
			t.Fatalf("%q is no JSON: %v", first, err)
		}
		if got, err := perdure.CanonicalJSON(spaced.Bytes()); err != nil || !bytes.Equal(got, first) {
			t.Errorf("spacing changes %q: got %q, %v", first, got, err)
		}
		second, err := perdure.CanonicalJSON(b)
		if err != nil || hugeExponent.Match(a) || hugeExponent.Match(b) {
			return
		}
		if got, want := bytes.Equal(first, second), sameValue(t, a, b); got != want {
			t.Errorf("%q and %q have equal bytes: got %t, want %t", a, b, got, want)
		}
	})
}

// sameValue compares two JSON texts by value; numbers exactly.
func sameValue(t *testing.T, a, b []byte) bool {
	t.Helper()
	return equalValues(t, decodeValue(t, a), decodeValue(t, b))
}

func decodeValue(t *testing.T, text []byte) any {
	t.Helper()
	if len(bytes.Trim(text, " \t\r\n")) == 0 {
		return map[string]any{}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q was accepted and is no JSON: %v", text, err)
	}
	return v
}

func equalValues(t *testing.T, a, b any) bool {
	t.Helper()
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && rational(t, a.String()).Cmp(rational(t, b.String())) == 0
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if _, there := b[k]; !there || !equalValues(t, a[k], b[k]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalValues(t, a[i], b[i]) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
