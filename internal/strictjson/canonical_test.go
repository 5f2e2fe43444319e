package strictjson_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/internal/strictjson"
)

func TestCanonical(t *testing.T) {
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
		got, err := strictjson.Canonical(json.RawMessage(c.text))
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

		wrote, err := strictjson.Canonical(json.RawMessage(a))
		if err != nil {
			t.Fatal(err)
		}
		other, err := strictjson.Canonical(json.RawMessage(b))
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

	got, err := strictjson.Canonical(json.RawMessage(text))

	runtime.ReadMemStats(&after)
	want := strings.Repeat(`{"a":1,"b":`, 900) + `"` + long + `"` + strings.Repeat(`}`, 900)
	if err != nil || string(got) != want {
		t.Errorf("got %.100s, %v", got, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
		t.Errorf("%d bytes allocated for a text of %d", used, len(text))
	}
}

// FuzzCanonical is PR6: spacing and key order do not change the canonical form, and a changed
// value does.
func FuzzCanonical(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":[1.0,"x"]}`, `{"b":[1,"x"],"a":1e0}`}, {`1`, `1.0`}, {`-0`, `0`}, {`[]`, `{}`}, {`"a"`, `"\u0061"`}, {`{"a":1,"a":2}`, `{}`},
		{`12345678901234567890`, `12345678901234567891`}, {`{"":null}`, `{"":false}`}, {`[[1],[2]]`, `[[1,[2]]]`}, {`"\u2028"`, `" "`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	hugeExponent := regexp.MustCompile(`[eE][+-]?[0-9]{4}`)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		first, err := strictjson.Canonical(a)
		if err != nil {
			return
		}
		again, err := strictjson.Canonical(first)
		if err != nil || !bytes.Equal(again, first) {
			t.Errorf("the canonical form of %q changes: got %q, %v", first, again, err)
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, first, " ", "\t"); err != nil {
			t.Fatalf("%q is no JSON: %v", first, err)
		}
		if got, err := strictjson.Canonical(spaced.Bytes()); err != nil || !bytes.Equal(got, first) {
			t.Errorf("spacing changes %q: got %q, %v", first, got, err)
		}
		second, err := strictjson.Canonical(b)
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
