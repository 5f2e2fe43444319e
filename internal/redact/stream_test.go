package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/internal/redact"
)

// forms encodes a secret in the forms in which it must be found, each in a text of its own. Its
// base64 texts have marks where no character is left that depends on the secret alone.
func forms(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	again, _ := json.Marshal(string(quoted))
	all := map[string]string{
		"plain": secret, "hex": hex.EncodeToString([]byte(secret)),
		"upper hex": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query":     url.QueryEscape(secret), "path": url.PathEscape(secret),
		"query twice": url.QueryEscape(url.QueryEscape(secret)),
		"json":        string(quoted[1 : len(quoted)-1]), "json twice": string(again[3 : len(again)-3]),
		"json in full": jsonEscaped(secret),
		"html":         html.EscapeString(secret),
	}
	for before := range 4 {
		wrapped := []byte(strings.Repeat("\x01", before) + secret + "\x02\x02\x02"[:before%3])
		all[fmt.Sprint("std base64 ", before)] = base64.StdEncoding.EncodeToString(wrapped)
		all[fmt.Sprint("url base64 ", before)] = base64.RawURLEncoding.EncodeToString(wrapped)
	}
	return all
}

// feed sends a text through a stream, divided at some positions.
func feed(t interface{ Errorf(string, ...any) }, s *redact.Stream, text string, cuts ...int) string {
	var out []byte
	from := 0
	for _, to := range append(cuts, len(text)) {
		part := s.Feed([]byte(text[from:to]))
		if utf8.ValidString(text) && !utf8.Valid(part) {
			t.Errorf("a character was cut: %q", part)
		}
		out = append(out, part...)
		from = to
	}
	return string(append(out, s.Flush()...))
}

// TestS18EverySplit: a secret in any form is found wherever the stream is divided in two, and in
// single bytes.
func TestS18EverySplit(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"canary-0123456789", `q"u\o/t&e<d>+%41 'x'`, "пароль и ключ 🔑🔑", "%41%41%41%41",
		`\\\\\\\\\\`, "line\nbreak\r\n\ttab", "ABCabc==//++"} {
		set := redact.NewSet("another-secret", secret, "not-there-at-all")
		for form, written := range forms(secret) {
			text := "é before " + written + " äfter"
			want := "é before " + redact.Mark + " äfter"
			if strings.Contains(form, "base64") {
				want = set.Mask(text)
				if !strings.HasPrefix(want, "é before ") || !strings.HasSuffix(want, " äfter") ||
					len(want) > len("é before  äfter")+len(redact.Mark)+10 {
					t.Errorf("%q as %s: %q became %q", secret, form, text, want)
				}
			}
			every := make([]int, len(text))
			for at := range every {
				every[at] = at
				if got := feed(t, set.Stream(), text, at); got != want {
					t.Fatalf("%q as %s, cut at %d: got %q, want %q", secret, form, at, got, want)
				}
			}
			if got := feed(t, set.Stream(), text, every...); got != want {
				t.Fatalf("%q as %s, in bytes: got %q, want %q", secret, form, got, want)
			}
		}
	}
}

// TestR21Skip removes a part of a text, between every two positions. Nothing of a secret is left on
// either side, distant text stays, and a secret that starts where nothing is shown is hidden to its
// end.
func TestR21Skip(t *testing.T) {
	t.Parallel()
	const secret = "canary-0123456789-abcdefghij"
	for _, shape := range []string{secret, strings.ReplaceAll(secret, "-", `\u002d`),
		hex.EncodeToString([]byte(secret))} {
		text := shape + ".." + shape
		for from := range len(text) {
			for to := from; to < len(text); to += 3 {
				s := redact.NewSet(secret).Stream()
				out := s.Feed([]byte("before " + text[:from]))
				out = append(out, s.Skip()...)
				for i := range 40 { // what may be the end of a secret is hidden, and so is one across the end of that
					out = append(out, s.Feed([]byte(text[to:]+strings.Repeat("-", i)))...)
					to = 0
				}
				out = append(out, s.Feed([]byte(strings.Repeat(" ", 5_000)+"behind"))...)
				out = append(out, s.Flush()...)

				got := string(out)
				for n := range len(shape) - 5 {
					if strings.Contains(got, shape[n:n+6]) {
						t.Fatalf("cut from %d to %d: %q is left", from, to, shape[n:n+6])
					}
				}
				if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, "behind") {
					t.Fatalf("got %q", got)
				}
				to = len(text)
			}
		}
	}
	s := redact.NewSet().Stream()
	if out := string(s.Feed([]byte("a\xc3"))) + string(s.Skip()) + string(s.Feed([]byte("b"))); out != "a\xc3b" {
		t.Errorf("without a secret: got %q", out)
	}
}

// TestWrappedBase64: encoders break long lines; a secret across a line break is found.
func TestWrappedBase64(t *testing.T) {
	t.Parallel()
	secret := "canary-0123456789-canary"
	code := base64.StdEncoding.EncodeToString([]byte("a file with a secret in it: " + secret + "\n"))
	for width := 1; width < len(code); width++ {
		for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`} {
			var wrapped strings.Builder
			for at := 0; at < len(code); at += width {
				wrapped.WriteString(code[at:min(at+width, len(code))] + end)
			}
			got := redact.NewSet(secret).Mask(wrapped.String())
			bare := strings.NewReplacer("\n", "", "\r", "", `\n`, "", `\r`, "").Replace(got)
			if strings.Count(got, redact.Mark) != 1 || strings.Contains(bare, code[42:60]) {
				t.Fatalf("lines of %d: %q", width, got)
			}
		}
	}
}

// union hides the secrets in a text in the simplest way: all bytes of all occurrences, with one
// mark for overlapping ones.
func union(text string, secrets []string) string {
	joined := make([]bool, len(text)+1) // with the byte before
	hidden := make([]bool, len(text)+1)
	for _, secret := range secrets {
		for at := range len(text) {
			if strings.HasPrefix(text[at:], secret) {
				for i := range secret {
					hidden[at+i] = true
					joined[at+i] = joined[at+i] || i > 0
				}
			}
		}
	}
	var out strings.Builder
	for at := range len(text) {
		switch {
		case !hidden[at]:
			out.WriteByte(text[at])
		case !joined[at]:
			out.WriteString(redact.Mark)
		}
	}
	return out.String()
}

// TestStreamIsTheUnion: over a small alphabet, where secrets overlap and contain each other, a
// stream hides exactly what a simple search hides, however it is divided, and holds back no more
// than the longest secret.
func TestStreamIsTheUnion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[xyz]{8,12}`), 0, 6).Draw(t, "secrets")
		if len(secrets) > 0 {
			secrets = append(secrets, "zx"+secrets[0]+"yz")
		}
		parts := rapid.SliceOf(rapid.OneOf(rapid.StringMatching(`[xyzé]{0,9}`), rapid.SampledFrom(append(secrets, ""))))
		text := strings.Join(parts.Draw(t, "text"), "")
		cuts := rapid.SliceOf(rapid.IntRange(0, len(text))).Draw(t, "cuts")
		slices.Sort(cuts)

		if got, want := feed(t, redact.NewSet(secrets...).Stream(), text, cuts...), union(text, secrets); got != want {
			t.Errorf("%q with %q cut at %v: got %q, want %q", text, secrets, cuts, got, want)
		}
		s := redact.NewSet(secrets...).Stream()
		out := len(s.Feed([]byte(text)))
		if held := len(union(text, secrets)) - out; held > 17+len(redact.Mark) {
			t.Errorf("%d bytes are held back", held)
		}
	})
}

// TestStreamForms: many secrets at once, in any form, among other text, however the stream is
// divided.
func TestStreamForms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[!-~é🔑]{10,30}`), 1, 5).Draw(t, "secrets")
		set := redact.NewSet(secrets...)
		var text strings.Builder
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			all := forms(rapid.SampledFrom(secrets).Draw(t, "secret"))
			names := slices.Sorted(func(yield func(string) bool) {
				for name := range all {
					if !yield(name) {
						return
					}
				}
			})
			text.WriteString(rapid.StringMatching(`[ -~\n€]{0,8}`).Draw(t, "between") + " " +
				all[rapid.SampledFrom(names).Draw(t, "form")] + " ")
		}
		cuts := rapid.SliceOf(rapid.IntRange(0, text.Len())).Draw(t, "cuts")
		slices.Sort(cuts)

		got := feed(t, set.Stream(), text.String(), cuts...)
		if want := set.Mask(text.String()); got != want {
			t.Errorf("%q cut at %v: got %q, want %q", text.String(), cuts, got, want)
		}
		assertGone(t, got, secrets)
	})
}

// assertGone decodes a text in the usual ways, and checks that no secret is in it.
func assertGone(t interface{ Errorf(string, ...any) }, text string, secrets []string) {
	for _, secret := range secrets {
		for form, written := range forms(secret) {
			if !strings.Contains(form, "base64") && strings.Contains(text, written) {
				t.Errorf("%q is there as %s: %q", secret, form, text)
			}
		}
		for before := range 3 {
			code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x01", before) + secret +
				strings.Repeat("\x01", 3)))
			if core := code[4 : len(code)-8]; strings.Contains(text, core) {
				t.Errorf("%q is there in base64: %q", secret, text)
			}
		}
	}
}

// TestRD6Payloads: a stream keeps what only looks like a secret by its name, and every byte beside
// the secrets.
func TestRD6Payloads(t *testing.T) {
	t.Parallel()
	payload := `{"next_page_token": "abc", "partition_key":"p", "password" : "hunter2", "bad": "` + "\xff\xc3" +
		`%zz &amp \u12 \ud800", "a": 1.0e3}` + "\r\n%canary-012\n3456789 canary-012345678"
	set := redact.NewSet("canary-0123456789", "")

	if got := set.Mask(payload); got != payload {
		t.Errorf("got %q, want the same", got)
	}
	for at := range len(payload) {
		if got := feed(t, set.Stream(), payload, at); got != payload {
			t.Errorf("cut at %d: got %q, want the same", at, got)
		}
	}
	var none *redact.Set
	if got := none.Mask(payload); got != payload {
		t.Errorf("without a set: got %q, want the same", got)
	}
}

func TestShortSecrets(t *testing.T) {
	t.Parallel()
	set := redact.NewSet("ollama", "pass;")
	for text, want := range map[string]string{
		"ollama":              redact.Mark,
		"is ollama, there":    "is " + redact.Mark + ", there",
		"ollamas xollama _ol": "ollamas xollama _ol",
		"%6fllama":            "%6fllama",
		"pass;word trespass;": redact.Mark + "word trespass;",
	} {
		for at := range text {
			if got := feed(t, set.Stream(), text, at); got != want {
				t.Errorf("%q cut at %d: got %q, want %q", text, at, got, want)
			}
		}
	}
}

// TestManyReadings: a text with very many readings is still read in one pass.
func TestManyReadings(t *testing.T) {
	t.Parallel()
	slashes := strings.Repeat(`\`, 100)
	if got := redact.NewSet(slashes[:30] + "x").Mask(slashes); got != slashes {
		t.Errorf("got %q, want the same", got)
	}
	if got := redact.NewSet(slashes[:30] + "x").Mask(slashes + "x"); !strings.HasSuffix(got, redact.Mark) {
		t.Errorf("got %q, want a mark", got)
	}
}

// TestMarkIsNoSecret: the mark is left alone, so that masking twice equals masking once.
func TestMarkIsNoSecret(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"redacted", "<redacted>", "<"} {
		set := redact.NewSet(secret, "canary-0123456789")
		once := set.Mask("a canary-0123456789 < <redacted>")
		if twice := set.Mask(once); once != "a <redacted> < <redacted>" || twice != once {
			t.Errorf("%s: got %q, then %q", secret, once, twice)
		}
	}
}

// TestSetChanges: an open stream follows its set, also for what it holds back. A secret that was
// added twice stays until it was removed twice.
func TestSetChanges(t *testing.T) {
	t.Parallel()
	set := redact.NewSet("canary-0123456789")
	s := set.Stream()
	out := string(s.Feed([]byte("x canary-01234")))
	set.Add("canary-01234-later")
	out += string(s.Feed([]byte("-later canary-0123456789 ")))
	set.Add("canary-0123456789")
	set.Remove("canary-0123456789")
	out += string(s.Feed([]byte("canary-0123456789 ")))
	set.Remove("canary-0123456789")
	set.Remove("canary-0123456789")
	out += string(s.Feed([]byte("canary-0123456789"))) + string(s.Flush())

	if want := "x <redacted> <redacted> <redacted> canary-0123456789"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestSetIsShared: many goroutines change and use a set, and a secret that stays in it is hidden
// throughout.
func TestSetIsShared(t *testing.T) {
	t.Parallel()
	set := redact.NewSet("canary-0123456789")
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 50 {
				other := fmt.Sprintf("passing-secret-%d-%d", n, i)
				set.Add(other)
				if got := feed(t, set.Stream(), "a canary-0123456789 b", i%20); got != "a <redacted> b" {
					t.Errorf("got %q", got)
				}
				if got := set.Mask(other); got != redact.Mark {
					t.Errorf("got %q", got)
				}
				set.Remove(other)
			}
		})
	}
	all.Wait()
}

func FuzzStream(f *testing.F) {
	f.Add("canary-0123456789", "x canary-0123456789", uint8(5), uint8(9))
	f.Add(`\\\\\\\\`, `\\\\\\\\\\\\\\\\u005c&#x5c;%255c`, uint8(3), uint8(12))
	f.Fuzz(func(t *testing.T, secret, text string, first, second uint8) {
		set := redact.NewSet(secret, "canary-0123456789")
		cuts := []int{min(int(first), len(text)), min(int(first)+int(second), len(text))}
		got := feed(t, set.Stream(), text, cuts...)
		if want := set.Mask(text); got != want {
			t.Errorf("cut at %v: got %q, want %q", cuts, got, want)
		}
		if !strings.Contains(got, redact.Mark) && got != text {
			t.Errorf("got %q, want the same", got)
		}
		if strings.Contains(strings.ReplaceAll(got, redact.Mark, "\x00"), "canary-0123456789") {
			t.Errorf("the secret is there: %q", got)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	set := redact.NewSet()
	for n := range 500 {
		set.Add(fmt.Sprintf("%x-secret-%d", n*7919, n))
	}
	chunk := bytes.Repeat([]byte("2026-11-22 INFO step 17 of 200 done; {\"ok\": true, \"path\": \"/srv/a "+
		"b/c.txt\"}\n"), 100)
	s := set.Stream()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		s.Feed(chunk)
	}
}
