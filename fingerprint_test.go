package perdure_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

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
