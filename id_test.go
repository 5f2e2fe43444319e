package perdure_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// kindOfID is one typed identifier, seen from outside its type.
type kindOfID struct {
	prefix string
	parse  func(string) (string, error)
	format func([16]byte) string
	derive func(perdure.Secret, time.Time, ...string) string
}

func kind[T perdure.ID](prefix string) kindOfID {
	return kindOfID{
		prefix: prefix,
		parse:  func(s string) (string, error) { id, err := perdure.ParseID[T](s); return string(id), err },
		format: func(uuid [16]byte) string { return string(perdure.FormatID[T](uuid)) },
		derive: func(secret perdure.Secret, at time.Time, parts ...string) string {
			return string(perdure.DeriveID[T](secret, at, parts...))
		},
	}
}

func kinds() []kindOfID {
	return []kindOfID{
		kind[perdure.SessionID]("session"), kind[perdure.TurnID]("turn"), kind[perdure.ExecID]("exec"), kind[perdure.EventID]("event"),
		kind[perdure.MessageID]("message"), kind[perdure.TaskID]("task"), kind[perdure.RunID]("bg"), kind[perdure.TaskMessageID]("tmsg"),
		kind[perdure.WorkerID]("worker"), kind[perdure.RequestID]("req"),
	}
}

// TestParseID has N1 and N2 for every noun.
func TestParseID(t *testing.T) {
	t.Parallel()
	digits := "0190b9e7c0de7000800000000000c0de"
	for _, k := range kinds() {
		t.Run("N1_"+k.prefix, func(t *testing.T) {
			t.Parallel()
			good := k.prefix + "_" + digits
			if got, err := k.parse(good); err != nil || got != good {
				t.Errorf("%s: got %s, %v; want it back", good, got, err)
			}
			if got, err := k.parse(k.prefix + "_" + strings.Repeat("f", 32)); err != nil {
				t.Errorf("another UUID version: got %s, %v; want it back", got, err)
			}
			for _, bad := range []string{
				"", k.prefix, k.prefix + "_", "_" + digits, digits, "thing_" + digits, strings.ToUpper(good), k.prefix + "_" + strings.ToUpper(digits),
				good + "0", good[:len(good)-1], k.prefix + "-" + digits, k.prefix + "_0190b9e7-c0de-7000-8000-00000000c0de",
				k.prefix + "_" + strings.Repeat("g", 32), k.prefix + "_" + digits[:16] + "x" + digits[17:], " " + good, good + "\n",
			} {
				got, err := k.parse(bad)
				if !errors.Is(err, perdure.Invalid) || got != "" || !strings.HasPrefix(err.Error(), "invalid "+k.prefix+" id") {
					t.Errorf("%q: got %q, %v; want invalid %s id", bad, got, err, k.prefix)
				}
			}
		})
	}
}

func TestFormatID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(kinds()).Draw(t, "kind")
		uuid := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))

		id := k.format(uuid)

		if want := k.prefix + "_" + hex.EncodeToString(uuid[:]); id != want {
			t.Errorf("got %s, want %s", id, want)
		}
		if got, err := k.parse(id); err != nil || got != id {
			t.Errorf("parsed: got %s, %v; want %s", got, err, id)
		}
	})
}

// TestDeriveID has N4: the same on every replay, with the time of its cause, and not guessable.
func TestDeriveID(t *testing.T) {
	t.Parallel()
	parts := rapid.SliceOfN(rapid.StringN(0, 6, -1), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(kinds()).Draw(t, "kind")
		secret := perdure.Secret(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "secret"))
		ms := rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")
		at := time.UnixMilli(ms).Add(time.Duration(rapid.IntRange(0, 999_999).Draw(t, "ns")))
		mine, other := parts.Draw(t, "parts"), parts.Draw(t, "other parts")

		id := k.derive(secret, at, mine...)

		if again := k.derive(secret, at.In(time.FixedZone("", 3600)), mine...); again != id {
			t.Errorf("derived again: got %s, want %s", again, id)
		}
		uuid, err := hex.DecodeString(strings.TrimPrefix(id, k.prefix+"_"))
		if err != nil || len(uuid) != 16 {
			t.Fatalf("%s is no id: %v", id, err)
		}
		version := byte(7)
		if k.prefix == "message" { // shown to clients, so it does not reveal when it was made (N3)
			version = 4
		} else if got := fmt.Sprintf("%x", uuid[:6]); got != fmt.Sprintf("%012x", ms) {
			t.Errorf("time bits: got %s, want %012x", got, ms)
		}
		if uuid[6]>>4 != version || uuid[8]>>6 != 2 {
			t.Errorf("%s: got version %d, variant %b; want %d, 10", id, uuid[6]>>4, uuid[8]>>6, version)
		}
		if got := k.derive(secret, at, other...); (got == id) != equal(mine, other) {
			t.Errorf("parts %q and %q: got %s and %s", mine, other, id, got)
		}
		stranger := secret
		stranger[rapid.IntRange(0, 31).Draw(t, "byte")]++
		if got := k.derive(stranger, at, mine...); got == id {
			t.Errorf("another secret derives the same %s", id)
		}
	})
}

func equal(a, b []string) bool {
	return len(a) == len(b) && fmt.Sprintf("%q", a) == fmt.Sprintf("%q", b)
}

// TestDeriveIDIsKept pins one derived id of each kind: a newer version must find the tasks of an
// older one.
func TestDeriveIDIsKept(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{string(perdure.DeriveID[perdure.TaskID](perdure.Secret{1}, at, "session_1", "call-1")), "task_01a1fc0be380777bbaf259e0b7caa8a6"},
		{string(perdure.DeriveID[perdure.RunID](perdure.Secret{1}, at, "session_1", "call-1")), "bg_01a1fc0be38071ddbdc838a9790c86e6"},
		{string(perdure.DeriveID[perdure.SessionID](perdure.Secret{1}, at, "session_1", "call-1")), "session_01a1fc0be3807f91aa910a2adda02f69"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestSecretHidesItself(t *testing.T) {
	t.Parallel()
	secret := perdure.Secret{0xab, 0xcd}
	for _, format := range []string{"%v", "%s", "%q", "%+v", "%x"} {
		if got := fmt.Sprintf(format, secret); strings.Contains(got, "171") || strings.Contains(got, "abcd") {
			t.Errorf("%s prints %s", format, got)
		}
	}
}

// TestKeys: the id of a key stays the same for ever, and no other key has it.
func TestKeys(t *testing.T) {
	t.Parallel()
	const want = "session_48a438054d7b8f31989049d6c715e3a5"
	if got := perdure.SessionIDForKey("default", "order 7"); got != want {
		t.Errorf("got %s, want %s: stored sessions have this id", got, want)
	}
	if perdure.Text("a").WithKey("x").ID != perdure.IDForKey[perdure.MessageID]("x") {
		t.Error("the key of a message gives another id")
	}
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.String())
		one, other := keys.Draw(t, "one"), keys.Draw(t, "other")

		id, again := perdure.IDForKey[perdure.SessionID](one...), perdure.IDForKey[perdure.SessionID](other...)

		if parsed, err := perdure.ParseSessionID(string(id)); err != nil || parsed != id || !id.HasKey() {
			t.Errorf("%s: %v", id, err)
		}
		if (id == again) != slices.Equal(one, other) {
			t.Errorf("%q has %s, %q has %s", one, id, other, again)
		}
	})
	for _, id := range []perdure.SessionID{"", "session_8", "session_0190b9e7c0de7000800000000000c0de"} {
		if id.HasKey() {
			t.Errorf("%q is no id of a key", id)
		}
	}
}

// TestParseShowsTheForm: an error on an id says what an id looks like.
func TestParseShowsTheForm(t *testing.T) {
	t.Parallel()
	_, err := perdure.ParseSessionID("my session")

	if !errors.Is(err, perdure.Invalid) {
		t.Fatalf("got %v", err)
	}
	_, example, _ := strings.Cut(err.Error(), "as in ")
	if _, wrong := perdure.ParseSessionID(example); wrong != nil {
		t.Errorf("%q shows no id: %v", err, wrong)
	}
}

// FuzzParseSessionID: no text makes the parser fail, and what it accepts stays as it is.
func FuzzParseSessionID(f *testing.F) {
	f.Add("session_0190b9e7c0de7000800000000000c0de")
	f.Add("session_")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := perdure.ParseSessionID(text)
		if err == nil && string(id) != text {
			t.Errorf("%q became %q", text, id)
		}
	})
}
